"""Construction of the `Plan` of a macro step from a session's topology and settings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from hilrt.config.structs import CALCULATED, Session
from hilrt.coupling.closed_loop import Sensitivities
from hilrt.coupling.extrapolate import gram_factor
from hilrt.coupling.mu import bond_mu, find_side_flow, spurious_share
from hilrt.coupling.trust import Verification
from hilrt.expressions.program import Program
from hilrt.expressions.session_program import channel_sources
from hilrt.link import FINDINGS, SMOOTH
from hilrt.reliability.alarms import AlarmNames, alarm_rows, fill_alarms
from hilrt.reliability.checks import CheckNames, check_rows, fill_checks
from hilrt.reliability.estimates import GAIN_RANGE, HIGH_ENDS, how_estimated
from hilrt.solver import Floats, Parameter
from hilrt.step.changes import OwnParameter
from hilrt.step.fill_controls import fill_controls, fill_ranges
from hilrt.step.fill_faults import alteration_rows, check_allowed, fill_faults
from hilrt.step.fill_stimuli import (
    StimulusTables,
    fill_conditions,
    fill_parameters,
    stimulus_tables,
)
from hilrt.tables import plan as rows
from hilrt.tables.model import ModelPlan, no_model_plan
from hilrt.tables.network import Network
from hilrt.tables.plan import Plan
from hilrt.tables.ports import Bools
from hilrt.tables.program_tables import CalculatedOutput, ChannelSource, ReadingRow
from hilrt.tables.record import COEFFICIENTS, R, Table, table
from hilrt.tables.relation import Relation

#: Delay [steps] of a bench's set-points beyond its actuation delay, where a model represents the
#: bench: half a step of hold on average, and three quarters of a step of unknown dead time.
DEAD_TIME_STEPS = 1.25


class Platform(NamedTuple):
    """Facts about the subsystems from their links, arrays of shape (n subsystems,).

    `physical`: benches and others that run on their own; `lead`: actuation delay, s;
    `verification`: result of checking the bonds' corrections; `sensitivities`: responses of the
    coupled system to disturbances; both None if not probed. `findings`, `parameters`: those of
    each link.
    """

    physical: Bools
    lead: Floats
    verification: Verification | None = None
    sensitivities: Sensitivities | None = None
    findings: Sequence[Sequence[str]] = ()
    parameters: Sequence[Sequence[Parameter]] = ()


def build_plan(
    network: Network,
    tables: Session,
    platform: Platform,
    program: Program,
    *,
    shadow: bool = False,
    model: ModelPlan | None = None,
    columns: Sequence[Floats] = (),
    parameters: Sequence[OwnParameter] = (),
) -> tuple[Plan, CheckNames, AlarmNames]:
    """Build the constants of the macro step; return them with the names of its checks and alarms.

    Parameters
    ----------
    network : Network
    tables : Session
        The session file.
    platform : Platform
    program : Program
        Of the session's expressions.
    shadow : bool
        Compute every correction and apply none.
    model : ModelPlan, optional
        Where outputs are corrected by their feedthrough or by Jacobians.
    columns : sequence of ndarray, shape (n, 2)
        Columns of files that stimuli consist of (`hilrt.step.fill_stimuli`).
    parameters : sequence of OwnParameter
        Parameters that may change.

    Raises
    ------
    ConfigError
        If tolerances name ports that do not exist.
    """
    alarms = alarm_rows(network, tables.alarms)
    checks = check_rows(network, tables.master, alarms.names, acting=not shadow)
    units = {own.number: own.parameter.unit for own in parameters}
    stimuli = stimulus_tables(network, tables, columns, units)
    faults = alteration_rows(network, tables.faults)
    check_allowed(tables, set(compress(network.subsystems, platform.physical)))
    plan = _size_tables(network, platform, program, stimuli, checks, alarms, model)
    sources, remembers = channel_sources(network, program)
    plan = plan._replace(
        channel_sources=_pairs(sources, ChannelSource, ("channel", "source")),
        faults=table(rows.FaultPlan, len(tables.faults)),
        alterations=table(rows.AlterationPlan, len(faults)),
        parameters=table(rows.ParameterPlan, len(parameters)),
    )
    fill_parameters(plan, network, tables, parameters)
    _fill_ports(plan, network, tables, platform)
    fill_ranges(plan, network, tables)
    _fill_calculated(plan, network, program, remembers)
    _fill_connections(plan, network)
    fill_faults(plan, network, tables, faults)
    fill_conditions(plan, network, tables, program)
    _fill_bonds(plan, network, platform.physical, shadow)
    _fill_verification(plan, platform.verification)
    by_flows = (plan.bonds["adapts"] != 0) & (plan.bonds["side_flow"] >= 0)
    plan.bonds["mu"][by_flows] = plan.bonds["mu_least"][by_flows]  # until the flows are evidence
    _fill_session(plan, tables, shadow)
    fill_controls(plan, network, tables.master)
    _fill_sensitivities(plan, platform.sensitivities)
    _find_renewed(plan)
    _fill_estimates(plan, network, tables, sources)
    _fill_inside(plan, network, tables, sources)
    fill_checks(plan, checks)
    fill_alarms(plan, alarms, tables.master.step)
    return plan, checks, alarms


def _size_tables(
    network: Network,
    platform: Platform,
    program: Program,
    stimuli: StimulusTables,
    checks: CheckNames,
    alarms: AlarmNames,
    model: ModelPlan | None,
) -> Plan:
    """Allocate all tables; only relations, stimuli and the program are filled."""
    bonds, known = network.bonds, platform.sensitivities
    return Plan(
        session=table(rows.SessionPlan, 1),
        subsystems=table(rows.SubsystemPlan, len(network.subsystems)),
        outputs=table(rows.OutputPlan, len(network.outputs)),
        inputs=table(rows.InputPlan, len(network.inputs)),
        connections=table(rows.ConnectionPlan, len(network.connections.source)),
        **stimuli._asdict(),
        faults=table(rows.FaultPlan, 0),
        alterations=table(rows.AlterationPlan, 0),
        parameters=table(rows.ParameterPlan, 0),
        bonds=table(rows.BondPlan, len(bonds)),
        elements=table(rows.ElementPlan, len(bonds.effort)),
        summands=table(rows.Summand, len(bonds.more)),
        sensitivities=_sensitivities(platform.verification),
        contributions=_contributions(network),
        passes=_passes(network),
        feeds=_pairs(network.fed, rows.FeedPlan, ("input", "giver")),
        receives=_receives(network),
        direct=_rows(rows.DirectAnswer, known.direct if known else ()),
        error_paths=_rows(rows.ErrorPath, known.paths if known else ()),
        error_answers=_rows(rows.ErrorAnswer, known.answers if known else ()),
        own_paths=_rows(rows.OwnPath, known.own if known else ()),
        checks=table(rows.CheckPlan, len(checks.where)),
        causes=table(rows.CausePlan, len(checks.causes)),
        alarms=table(rows.AlarmPlan, len(alarms.names)),
        operations=program.operations,
        lookup_points=program.points,
        readings=table(ReadingRow, len(program.signals)),
        calculated=table(CalculatedOutput, len(program.channels)),
        channel_sources=table(ChannelSource, 0),
        model=model or no_model_plan(),
    )


def _fill_session(plan: Plan, tables: Session, shadow: bool) -> None:
    master, limits, session = tables.master, tables.reliability, plan.session
    session["step"] = session["first_step"] = master.step
    session["shadow"] = shadow
    at_bonds = [*plan.elements["effort_input"], *plan.elements["flow_input"]]
    driven = plan.inputs["drive"][at_bonds] >= 0
    session["shared_inputs"] = len(plan.contributions) > 0 or driven.any()
    session["gram_factor"] = gram_factor(COEFFICIENTS)
    session["scale_time"] = limits.scale_time
    session["clear_time"] = limits.clear_time
    session["warm_up"] = limits.warm_up
    session["clock_limit"] = limits.clock * master.step


def _fill_ports(plan: Plan, network: Network, tables: Session, platform: Platform) -> None:
    owner = network.outputs.owner
    subsystems, outputs, inputs = plan.subsystems, plan.outputs, plan.inputs
    late = [tables.subsystems[name].late.policy for name in network.subsystems]
    subsystems["every"] = network.every
    subsystems["physical"] = platform.physical
    subsystems["calculated"] = [name == CALCULATED for name in network.subsystems] or 0
    for name in FINDINGS:
        subsystems[name] = [name in found for found in platform.findings] or 0
    sequences = _sequences(network, tables)
    subsystems["holds_when_late"] = sequences | [policy == "hold" for policy in late]
    subsystems["predicts_when_late"] = [policy == "predict" for policy in late]
    subsystems["max_misses"] = [
        tables.subsystems[name].late.max_misses for name in network.subsystems
    ]
    for side, first, count in (
        (network.outputs, "first_output", "outputs"),
        (network.inputs, "first_input", "inputs"),
    ):
        subsystems[first] = [part.start for part in side.slices]
        subsystems[count] = [part.stop - part.start for part in side.slices]
    outputs["subsystem"] = owner
    own_step = tables.master.step * network.every[owner]
    outputs["spacing"] = np.where(platform.physical[owner], 0.5 * own_step, 0.0)
    outputs["coupled"] = network.L.transposed.in_row
    inputs["subsystem"] = network.inputs.owner
    inputs["connected"] = network.connected
    inputs["exact"] = _exact(network, sequences)
    inputs["constant"] = np.where(network.connected, network.offset, network.u_start)
    inputs["lead"] = platform.lead[network.inputs.owner]
    inputs["low"], inputs["high"] = network.u_min, network.u_max
    inputs["max_rate"], inputs["max_jerk"] = network.max_rate, network.max_jerk
    inputs["drive"] = -1
    inputs["drive"][plan.drives["input"]] = np.arange(len(plan.drives))


def _sequences(network: Network, tables: Session) -> Bools:
    return np.array([tables.subsystems[name].is_sequence for name in network.subsystems], np.bool_)


def _exact(network: Network, sequences: Bools) -> Bools:
    """Inputs of test sequences, and inputs that only these drive, shape (nu,)."""
    of_sequence = sequences[network.outputs.owner]
    others = network.L.where(columns=~of_sequence).in_row
    exact: Bools = (network.L.in_row & ~others) | sequences[network.inputs.owner]
    return exact


def _fill_calculated(plan: Plan, network: Network, program: Program, remembers: Bools) -> None:
    number = network.outputs.numbers
    plan.readings["output"] = [number[name] for name in program.signals]
    for row, (name, (register, _)) in zip(plan.calculated, program.channels.items(), strict=True):
        row.register, row.output = register, number[f"{CALCULATED}.{name}"]
    channels = plan.calculated["output"]
    plan.outputs["calculated"][channels] = np.where(remembers[channels], 2, 1)


def _fill_connections(plan: Plan, network: Network) -> None:
    connections, table_ = network.connections, plan.connections
    table_["source"], table_["target"] = connections.source, connections.targets()
    table_["gain"], table_["order"] = connections.gain, connections.order
    table_["free"], table_["taylor"] = connections.free, connections.taylor
    table_["raw"] = connections.raw
    table_["offset"], table_["driven"] = connections.offset, connections.driven
    counts = np.diff(np.append(connections.first, len(connections.source)))
    plan.inputs["first_connection"][connections.target] = connections.first
    plan.inputs["connections"][connections.target] = counts


def _fill_bonds(plan: Plan, network: Network, physical: Bools, shadow: bool) -> None:
    """Fill in the bonds' settings; without a known mu or a bench's permission, a bond is shadow."""
    bonds, elements = network.bonds, plan.elements
    counts = np.bincount(bonds.of_element, minlength=len(bonds))
    elements["bond"] = bonds.of_element
    for name in ("effort", "flow", "effort_input", "flow_input"):
        elements[name] = getattr(bonds, name)
    for name in ("effort_gain", "flow_gain", "watt"):
        elements[name] = getattr(bonds, name)
    plan.summands["element"], plan.summands["output"] = bonds.more_of, bonds.more
    for b, bond in enumerate(bonds.tables):
        row, correction = plan.bonds[b], bond.correction
        mu = bond_mu(network, b, physical).value
        flow_side = network.inputs.owner[bonds.effort_input[bonds.first[b]]]
        permitted = correction.permit_on_bench and correction.cap_abs is not None
        known = mu is not None or correction.mu_range is not None
        allowed = known and (not physical[flow_side] or permitted)
        row.first, row.elements = bonds.first[b], counts[b]
        row.every = bonds.every[b]
        if correction.mu_range is not None:
            row.adapts, (row.mu_least, row.mu_most) = 1, correction.mu_range
        row.side_flow = find_side_flow(network, b, physical).output
        row.mu, row.nu = row.mu_least if mu is None else mu, correction.nu
        row.held = correction.residual == "held"
        row.wanted = correction.method == "energy"
        row.keeps = correction.when_harmful == "keep"
        row.active = row.wanted and allowed and not shadow
        row.spurious = spurious_share(network, b, physical)
        row.corrected_elsewhere = correction.method in ("feedthrough", "model")


def _fill_verification(plan: Plan, verification: Verification | None) -> None:
    """Fill the tables of verification; they are empty without evidence."""
    if verification is None:
        return
    plan.bonds["verification"] = verification.states
    plan.bonds["tried"][plan.elements["bond"][plan.sensitivities["element"]]] = 1
    plan.bonds["side_flow"][plan.bonds["tried"] != 0] = -1


def _fill_sensitivities(plan: Plan, known: Sensitivities | None) -> None:
    """Fill the tables of sensitivities; untested subsystems count as following inputs in a step."""
    plan.inputs["slope"] = 1.0
    if known is None:
        plan.inputs["fineness"] = 1.0
        plan.subsystems["inside"] = SMOOTH
        return
    plan.subsystems["inside"] = known.inside or SMOOTH
    plan.inputs["fineness"] = known.fineness
    if known.memory:  # logs of earlier versions have none
        plan.subsystems["memory"] = known.memory
    if known.slope:
        plan.inputs["slope"] = known.slope
    plan.session["error_states"] = known.states
    plan.session["error_unit"] = known.unit or plan.session["step"][0]
    plan.session["error_linear"] = known.linear
    plan.session["error_renewed"] = known.renewed
    plan.session["error_of_reference"] = known.of_reference
    if known.of_reference:
        owner = plan.inputs["subsystem"]
        period = plan.subsystems["every"] * plan.session["step"][0]
        physical = plan.subsystems["physical"] != 0
        plan.inputs["dead_time"] = np.where(physical, DEAD_TIME_STEPS * period, 0.0)[owner]
    plan.outputs["answers_known"][known.answers_known] = 1
    efforts = list(zip(plan.elements["effort"], plan.elements["bond"], strict=True))
    of_element = plan.elements["bond"]
    efforts += [(row.output, of_element[row.element]) for row in plan.summands]
    missing = {b for output, b in efforts if not plan.outputs["answers_known"][output]}
    for b, bond in enumerate(plan.bonds):
        # The interval begins with the corrected effort, even without a trial.
        bond.integrated = b not in missing or bond.corrected_elsewhere


def _fill_estimates(plan: Plan, network: Network, tables: Session, sources: Relation) -> None:
    """Method of each output's error estimate, and the factors of its band.

    Values set by test sequences are demands and have no error. A calculated channel that drives
    nothing has no estimate: it may be a small difference of large signals.
    """
    owner, outputs = network.outputs.owner, plan.outputs
    taken, given = np.zeros((2, len(network.subsystems)), np.bool_)
    taken[network.inputs.owner[network.connected]] = True
    given[owner[_taken(network.L, sources)]] = True
    followed = plan.session["error_states"][0] > 0
    # Loops do not depend on subsystems without outputs to others.
    outputs["followed"] = followed & (given[owner] | (outputs["answers_known"] != 0))
    uncoupled, known = outputs["coupled"] == 0, outputs["answers_known"] != 0
    tried = np.zeros(len(network.subsystems), np.bool_)
    tried[owner[known]] = True
    lacking = tried[owner] & ~known & (outputs["calculated"] == 0)  # in the reference model
    lacking |= sources.where(columns=lacking).in_row
    outputs["followed"][lacking] = 0
    high = np.where(outputs["followed"], HIGH_ENDS[how_estimated(plan)], HIGH_ENDS[GAIN_RANGE])
    high[lacking] = np.nan
    high[uncoupled & ~taken[owner]] = 0.0
    high[uncoupled & (outputs["calculated"] != 0)] = np.nan
    high[_sequences(network, tables)[owner]] = 0.0
    outputs["error_high"] = high
    through = network.feedthrough.where(columns=network.connected).in_row
    through &= ~known & (plan.subsystems["physical"][owner] == 0)
    through |= sources.where(columns=through).in_row
    plan.inputs["lags"] = network.L.where(columns=through).in_row


def _taken(L: Relation, sources: Relation) -> Bools:
    """Outputs that drive inputs through `L`, directly or by calculated channels, shape (ny,)."""
    taken = L.transposed.in_row
    found: Bools = taken | sources.where(rows=taken).transposed.in_row
    return found


def _fill_inside(plan: Plan, network: Network, tables: Session, sources: Relation) -> None:
    """Treat all subsystems as smooth inside a step except models that drive other subsystems."""
    giving, sequences = np.zeros(len(network.subsystems), np.bool_), _sequences(network, tables)
    taken = _taken(network.L.where(~sequences[network.inputs.owner]), sources)
    giving[network.outputs.owner[taken & (plan.outputs["calculated"] == 0)]] = True
    giving &= (plan.subsystems["physical"] == 0) & ~sequences
    plan.subsystems["inside"][~giving] = SMOOTH


def _rows(row: type[R], values: Sequence[tuple[float, ...]]) -> Table[R]:
    """Table of `values` without their last field, a factor."""
    found = table(row, len(values))
    if len(values):
        found[:] = [tuple(value[:-1]) for value in values]
    return found


def _sensitivities(verification: Verification | None) -> Table[rows.SensitivityPlan]:
    rows_ = [] if verification is None else verification.sensitivities
    found = table(rows.SensitivityPlan, len(rows_))
    for row, values in zip(found, rows_, strict=True):
        row.element, row.input, row.factor = values
        row.answer = -1
    return found


def _find_renewed(plan: Plan) -> None:
    """Find the renewed sensitivities that replace probed responses of the bonds."""
    if not plan.session["error_renewed"][0]:
        return
    first = len(plan.error_paths) + len(plan.error_answers)
    rows_ = {(row.output, row.input): first + k for k, row in enumerate(plan.direct)}
    efforts: list[list[int]] = [[element.effort] for element in plan.elements]
    for summand in plan.summands:
        efforts[summand.element].append(summand.output)
    for part in plan.sensitivities:
        s = plan.inputs[part.input].subsystem
        own = [output for output in efforts[part.element] if plan.outputs[output].subsystem == s]
        if len(own) == 1:  # else it is unknown which of them responds
            part.answer = rows_.get((own[0], part.input), -1)


def _contributions(network: Network) -> Table[rows.Contribution]:
    """Contributions to the bonds' inputs by connections that belong to no bond."""
    others, ne = network.bonds.others, len(network.bonds.effort)
    found = table(rows.Contribution, len(others))
    found["connection"], found["gain"] = others.row, others.weight
    found["at_flow"] = others.column >= ne
    found["element"] = others.column % ne if ne else 0
    return found


def _pairs(relation: Relation, row: type[R], names: tuple[str, str]) -> Table[R]:
    found = table(row, len(relation))
    found[names[0]], found[names[1]] = relation.row, relation.column
    return found


def _passes(network: Network) -> Table[rows.PassPlan]:
    return _pairs(network.feedthrough @ network.fed, rows.PassPlan, ("output", "giver"))


def _receives(network: Network) -> Table[rows.ReceiptPlan]:
    n, nu = len(network.subsystems), len(network.inputs)
    owns = Relation.of(network.inputs.owner, np.arange(nu), (n, nu))
    return _pairs(owns @ network.fed, rows.ReceiptPlan, ("subsystem", "giver"))
