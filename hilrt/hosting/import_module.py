"""Import a user's module: first a file in a given folder, then an installed one.

A module in the folder is loaded by its file's path, without changing `sys.path`: other imports do
not find files beside a session that have names of installed modules (``numpy.py``).
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError

#: Folders with models, appended to `sys.path` for the models' own imports.
_folders: list[str] = []
#: Loaded modules by file, with the file's time and size.
_loaded: dict[Path, tuple[tuple[int, int], ModuleType]] = {}


class _FreshSource(SourceFileLoader):
    """Loader that always compiles the source.

    Python would use stale bytecode of a source with the same size and time (in whole s).
    """

    def path_stats(self, path: Any) -> Any:
        raise OSError


def import_module(name: str, folders: Sequence[Path] = ()) -> ModuleType:
    """Module from a file in one of the folders, else an installed one of that name.

    A file that has changed since it was loaded is loaded again. Its own imports find modules in the
    same folder unless an installed one has that name.

    Parameters
    ----------
    name : str
        As in an import statement.
    folders : sequence of Path
        Searched in this order.

    Raises
    ------
    ConfigError
        If there is no such module, or importing it fails.
    """
    try:
        for folder in folders:
            file = _file(name, folder.resolve())
            if file is not None:
                return _load(name, file, folder.resolve())
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"module {name!r} needs the module {error.name!r}, which is not installed"
            ) from None
        hint = nearest(name, _modules_beside(name, folders) - {name})
        raise ConfigError(f"there is no module {name!r}{_where(folders)}{hint}") from None
    except (Exception, SystemExit) as error:  # a script may exit
        raise ConfigError(f"importing module {name!r} failed: {describe(error)}") from error


def _where(folders: Sequence[Path]) -> str:
    places = " or ".join(str(folder.resolve()) for folder in folders)
    return f" in {places}, and none is installed" if places else ""


def _file(name: str, folder: Path) -> Path | None:
    """File of the module in the folder; never a file that hides hilrt itself."""
    first, *rest = name.split(".")
    spec = None if first in ("hilrt", "__main__") else PathFinder.find_spec(first, [str(folder)])
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(part, list(spec.submodule_search_locations))
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _load(name: str, file: Path, folder: Path) -> ModuleType:
    """Module of the file; executed the first time, and after changes."""
    if _folders[:1] != [str(folder)]:
        _search_last(folder)
    stat = file.stat()
    stamp = (stat.st_mtime_ns, stat.st_size)
    if file in _loaded and _loaded[file][0] == stamp:
        return _loaded[file][1]
    first, _, rest = name.partition(".")
    found = PathFinder.find_spec(first, [str(folder)])
    assert found is not None  # it was found before
    top = first if _is_free(first, found) else f"{first}_{_digest(folder)}"
    full = f"{top}.{rest}" if rest else top
    if file in _loaded:
        sys.modules.pop(full, None)
    if top not in sys.modules:
        _execute(top, found)
    module = importlib.import_module(full)
    _loaded[file] = stamp, module
    return module


def _is_free(name: str, found: ModuleSpec) -> bool:
    """Whether an import of that name finds nothing, or the module `found`."""
    there = sys.modules.get(name)
    try:
        other = importlib.util.find_spec(name) if there is None else there.__spec__
    except ValueError:
        return False
    if other is None:
        return there is None
    return bool(_places(other) & _places(found))


def _places(spec: ModuleSpec) -> set[Path]:
    """File of a module; the folders of a package without one."""
    places = spec.submodule_search_locations or [] if spec.origin is None else [spec.origin]
    return {Path(place).resolve() for place in places}


def _digest(folder: Path) -> str:
    return hashlib.sha256(str(folder).encode()).hexdigest()[:8]


def _execute(name: str, found: ModuleSpec) -> None:
    """Create and execute the module that was found, possibly under another name."""
    inside = found.submodule_search_locations
    spec: ModuleSpec | None
    if found.origin is None:  # a folder without __init__.py
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = list(inside or ())
    else:
        source = isinstance(found.loader, SourceFileLoader)
        spec = importlib.util.spec_from_file_location(
            name,
            found.origin,
            loader=_FreshSource(name, found.origin) if source else None,
            submodule_search_locations=None if inside is None else list(inside),
        )
    assert spec is not None  # Python found a loader for it before
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    if spec.loader is not None:
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise


def _search_last(folder: Path) -> None:
    """Let models of the folder import modules beside them, but not those of another folder."""
    text = str(folder)
    for module in pkgutil.iter_modules([text]):
        there = getattr(sys.modules.get(module.name), "__file__", None)
        if there is not None and str(Path(there).parent) in {*_folders} - {text}:
            del sys.modules[module.name]  # existing references stay valid
    sys.path[:] = [place for place in sys.path if place not in _folders]
    if text in _folders:
        _folders.remove(text)
    _folders.insert(0, text)
    sys.path += [place for place in _folders if place not in sys.path]
    importlib.invalidate_caches()


def _modules_beside(name: str, folders: Iterable[Path]) -> set[str]:
    """Modules that may have been intended: of the same package, or in the folders."""
    package, dot, _ = name.rpartition(".")
    places: Iterable[str] = [str(folder) for folder in folders]
    if dot:
        try:
            places = importlib.import_module(package).__path__
        except (ImportError, AttributeError):
            return set()
    return {package + dot + module.name for module in pkgutil.iter_modules(list(places))}


# One-line description of an exception in a user's code, with its location.

#: Files of this package are skipped when locating a user's error.
_HERE = Path(__file__).resolve().parent


def describe(error: BaseException, cls: type | None = None) -> str:
    """``"ValueError: its message (file.py:12)"``; the line is the deepest one in `cls`'s file."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if Path(frame.filename).resolve().parent != _HERE]
    if cls is not None:
        try:
            own = str(Path(inspect.getfile(cls)).resolve())
        except (TypeError, OSError):
            own = ""
        theirs = [f for f in theirs if str(Path(f.filename).resolve()) == own] or theirs
    where = f" ({theirs[-1].filename}:{theirs[-1].lineno})" if theirs else ""
    text = f": {error}" if str(error) else ""
    return f"{type(error).__name__}{text}{where}"
