"""Passes of numba's compiler, for functions of whole plans, states and inputs.

A stage becomes part of the function that calls it (`compiled.stage`), and numba is slow with
functions of that size. These passes make the same code of them. Processor times are of a first
compilation that took 65 s without any of this.

* `InlineStages`: numba inlines a function with all that was inlined into it before, and copies all
  of it twice at each level: 7 s. Here one level is inlined at a time, and copied once.
* `CallParts`: what is called is compiled as a part of its caller (`stage_compiler`).
* `ReadTablesOnce`: every ``plan.inputs`` reads all 60 tables, as 400 numbers, of which LLVM takes
  away 393 later, and each inlined stage has copies of its own of all of them: 16 s. Here each table
  is read once, at the beginning.
* `AssignOnce`: numba goes through the whole function for each variable that is assigned more than
  once: 2 s. Here it goes through the blocks that have the variable.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba.core import ir as numba_ir
from numba.core import ir_utils, postproc, types
from numba.core import ssa as numba_ssa
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.untyped_passes import (
    FixupArgs,
    InlineClosureLikes,
    InlineInlinables,
    IRProcessing,
    TranslateByteCode,
)

#: They declare no types.
_register: Callable[..., Any] = register_pass
_manager: Any = PassManager
_utils: Any = ir_utils
_post: Any = postproc
_inlinables: Any = InlineInlinables
_flow: Any = compute_cfg_from_blocks
ssa: Any = numba_ssa
_NamedTuple: Any = types.BaseNamedTuple
ir: Any = numba_ir

#: From bytecode to numba's intermediate code.
TRANSLATION = (TranslateByteCode, FixupArgs, IRProcessing, InlineClosureLikes)


def _translate(state: Any, name: str = "untyped") -> Any:
    """The passes for a function that is inlined."""
    passes = _manager(name)
    for kind in TRANSLATION:
        passes.add_pass(kind, kind.__name__)
    passes.finalize()
    return passes


@_register(mutates_CFG=True, analysis_only=False)
class InlineStages(InlineInlinables):
    """Inlines one level at a time: calls in what was inlined are among those still to be done."""

    _name = "inline_stages"

    def _do_work(
        self, state: Any, work_list: Any, block: Any, i: int, expr: Any, worker: Any
    ) -> Any:
        if worker._compiler_pipeline is not _translate:
            worker._compiler_pipeline = _translate
            worker.run_untyped_passes = functools.cache(worker.run_untyped_passes)
        return _inlinables._do_work(self, state, work_list, block, i, expr, worker)


@_register(mutates_CFG=False, analysis_only=False)
class CallParts(FunctionPass):
    """Calls the part of a function that Python may call, too."""

    _name = "call_parts"

    def __init__(self) -> None:
        """Declared abstract by numba."""

    def run_pass(self, state: Any) -> bool:
        """Change the code of one function; returns whether it was changed."""
        for block in state.func_ir.blocks.values():
            for s in block.find_insts(ir.Assign):
                if isinstance(s.value, (ir.Global, ir.FreeVar)):
                    s.value.value = getattr(s.value.value, "part", s.value.value)
        return False


@_register(mutates_CFG=False, analysis_only=False)
class ReadTablesOnce(FunctionPass):
    """Reads each table of a namedtuple once, and replaces copies of the namedtuple by itself.

    A namedtuple does not change, so that its fields may be read at any time. Fields of records do:
    they are left alone.
    """

    _name = "read_tables_once"

    def __init__(self) -> None:
        """Declared abstract by numba."""

    def run_pass(self, state: Any) -> bool:
        """Change the code of one function; returns whether it was changed."""
        code = state.func_ir
        kinds = dict(enumerate(state.args))
        if not any(isinstance(kind, _NamedTuple) for kind in kinds.values()):
            return False
        first = code.blocks[min(code.blocks)]
        begin = [s for s in first.body if _is_assignment(s, ir.Arg)]
        known = {(s.value.index,): s.target for s in begin}
        known = {path: var for path, var in known.items() if _single(code, var)}
        replaced: dict[str, Any] = {}
        for block in code.blocks.values():
            for s in block.find_insts(ir.Assign):
                path = None if isinstance(s.value, ir.Arg) else _path(code, s.target, kinds)
                if path is None or path[:1] not in known:
                    continue
                for depth in range(2, len(path) + 1):
                    if path[:depth] not in known:
                        outer, field = known[path[: depth - 1]], path[depth - 1]
                        var = outer.scope.redefine(f"{outer.name}.{field}", s.loc)
                        begin.append(ir.Assign(ir.Expr.getattr(outer, field, s.loc), var, s.loc))
                        known[path[:depth]] = var
                replaced[s.target.name] = known[path]
        for block in code.blocks.values():
            block.body = [s for s in block.body if not _is_replaced(s, replaced)]
        _utils.replace_vars(code.blocks, replaced)
        first.body = begin + [s for s in first.body if not _is_assignment(s, ir.Arg)]
        code._definitions = _utils.build_definitions(code.blocks)
        _post.PostProcessor(code).run()
        return True


@_register(mutates_CFG=True, analysis_only=False)
class AssignOnce(FunctionPass):
    """Gives each assignment of a variable a name of its own, with numba's own functions."""

    _name = "assign_once"

    def __init__(self) -> None:
        """Declared abstract by numba."""

    def run_pass(self, state: Any) -> bool:
        """Change the code of one function; returns whether it was changed."""
        code = state.func_ir
        blocks = code.blocks
        having: dict[str, set[int]] = {}
        for label, block in blocks.items():
            for s in block.body:
                for var in s.list_vars():
                    having.setdefault(var.name, set()).add(label)
        flow = _flow(blocks)
        frontiers, cache = ssa._iterated_domfronts(flow), ssa._CacheListVars()
        for name in ssa._find_defs_violators(blocks, flow):
            some = {label: blocks[label] for label in blocks if label in having[name]}
            some, made = ssa._fresh_vars(some, name)
            joins = ssa._compute_phi_locations(frontiers, made)
            some |= {label: blocks[label] for label in joins - some.keys()}
            blocks.update(ssa._fix_ssa_vars(some, name, made, flow, frontiers, cache))
        code._definitions = _utils.build_definitions(blocks)
        _post.PostProcessor(code).run()
        return True


def _is_assignment(statement: Any, kind: Any) -> bool:
    return isinstance(statement, ir.Assign) and isinstance(statement.value, kind)


def _is_replaced(statement: Any, replaced: dict[str, Any]) -> bool:
    """Also the marks of where a variable is no longer needed, which are made anew afterwards."""
    if isinstance(statement, ir.Del):
        return True
    return isinstance(statement, ir.Assign) and statement.target.name in replaced


def _single(code: Any, var: Any) -> bool:
    return len(code._definitions[var.name]) == 1


def _path(code: Any, var: Any, kinds: dict[int, Any]) -> tuple[Any, ...] | None:
    """Argument and fields that a variable stands for, if it is (of) a namedtuple's; else None."""
    if not _single(code, var):
        return None
    value = code._definitions[var.name][0]
    if isinstance(value, ir.Arg):
        return (value.index,) if isinstance(kinds[value.index], _NamedTuple) else None
    if isinstance(value, ir.Var):
        return _path(code, value, kinds)
    if isinstance(value, ir.Expr) and value.op == "getattr":
        outer = _path(code, value.value, kinds)
        if outer is not None and value.attr in _fields(outer, kinds):
            return (*outer, value.attr)
    return None


def _fields(path: tuple[Any, ...], kinds: dict[int, Any]) -> tuple[str, ...]:
    """Fields of what is there, if that is a namedtuple."""
    kind = kinds[path[0]]
    for field in path[1:]:
        kind = kind.types[kind.fields.index(field)]
    return tuple(kind.fields) if isinstance(kind, _NamedTuple) else ()
