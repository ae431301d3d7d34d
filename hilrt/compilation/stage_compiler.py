"""numba's compiler for the numerics: fewer passes, and machine code of what Python calls alone.

numba compiles every function for itself: it is optimised with all that it calls, becomes machine
code and gets an entry for Python, and the same is done again for each of its callers. Python calls
two of the 180 functions of a macro step. The others are *parts* here (`compiled`): their code
goes into what calls them, and is optimised there. With this and with `stage_passes` the first
compilation takes 0.36 of the processor time that numba takes alone; the code that comes out gives
the same bits, and a macro step takes 0.92 of the time.

This is made of what is inside numba, for the version that pyproject.toml names.
"""

from __future__ import annotations

from typing import Any

from numba.core import codegen, compiler, typed_passes
from numba.core.compiler_machinery import PassManager

from hilrt.compilation.stage_passes import (
    TRANSLATION,
    AssignOnce,
    CallParts,
    InlineStages,
    ReadTablesOnce,
)

#: They declare no types.
_manager: Any = PassManager

#: In their order. Left out is what finds nothing to do: no array expressions, no constants to fold.
PASSES = (
    *TRANSLATION,
    InlineStages,
    CallParts,
    ReadTablesOnce,
    AssignOnce,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.AnnotateTypes,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


class _NumericsLibrary(codegen.JITCodeLibrary):
    """What LLVM has of a function, and of all that this calls; it is optimised once, as a whole.

    numba does so two times more, before it removes counts of references, of which there are none.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        generator: Any = self._codegen
        passes, builder = generator._module_pass_manager()
        passes.run(self._final_module, builder)


class _PartLibrary(_NumericsLibrary):
    """That of a part, which has no machine code and no address."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """None: numba makes an entry that is never called."""
        return 0

    @property
    def codegen(self) -> Any:
        """The library itself, for `set_env`."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing: constants that are Python objects are in machine code, and not in ours."""


class EntryCompiler(compiler.CompilerBase):
    """Compiles what Python calls."""

    library: type[Any] = _NumericsLibrary

    def define_pipelines(self) -> list[Any]:
        """The passes, in their order."""
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        passes = _manager("numerics")
        for kind in PASSES:
            passes.add_pass(kind, kind.__name__)
        passes.finalize()
        return [passes]


class PartCompiler(EntryCompiler):
    """Compiles what compiled functions call."""

    library = _PartLibrary
