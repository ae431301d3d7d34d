"""Relations against dense matrices of numpy, and components against scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.tables.relation import Relation
from tests.stepping import make_numerics

SIZES = st.integers(0, 6)


@st.composite
def pairs(draw, rows=SIZES, columns=SIZES):
    """A relation, and the dense matrix of the same sums; whole weights, so that both are exact."""
    shape = draw(rows), draw(columns)
    index = st.tuples(*(st.integers(0, max(n - 1, 0)) for n in shape), st.integers(-2, 2))
    found = draw(st.lists(index, max_size=12 if min(shape) else 0))
    dense = np.zeros(shape)
    for i, j, weight in found:
        dense[i, j] += weight
    i, j, weight = zip(*found, strict=True) if found else ((), (), ())
    return Relation.of(i, j, shape, weight), dense


@given(pairs())
def test_pairs_are_the_entries_of_the_matrix(both):
    relation, dense = both
    row, column = np.nonzero(dense)
    np.testing.assert_array_equal(relation.row, row)
    np.testing.assert_array_equal(relation.column, column)
    np.testing.assert_array_equal(relation.dense(), dense)
    np.testing.assert_array_equal(relation.transposed.dense(), dense.T)
    np.testing.assert_array_equal(relation.in_row, (dense != 0.0).any(axis=1))
    np.testing.assert_array_equal(relation.pattern().dense(), dense != 0.0)
    for i in range(dense.shape[0]):
        np.testing.assert_array_equal(relation.neighbours(i), np.flatnonzero(dense[i]))
        for j in range(dense.shape[1]):
            assert relation.value(i, j) == dense[i, j]


@given(pairs(), st.data())
def test_products_are_those_of_the_matrix(both, data):
    relation, dense = both
    n = dense.shape[1]
    vector = data.draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    other, theirs = data.draw(pairs(rows=st.just(dense.shape[1])))
    np.testing.assert_array_equal(relation @ vector, dense @ np.array(vector, dtype=float))
    np.testing.assert_array_equal((relation @ other).dense(), dense @ theirs)


@given(pairs(), st.data())
def test_parts_are_those_of_the_matrix(both, data):
    relation, dense = both
    rows, columns = (
        np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool)
        for n in dense.shape
    )
    chosen = np.where(rows[:, None] & columns, dense, 0.0)
    np.testing.assert_array_equal(relation.where(rows, columns).dense(), chosen)
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, dense.shape[0])] * 2)))
    np.testing.assert_array_equal(relation.part(slice(start, stop)).dense(), dense[start:stop])


@given(st.integers(1, 8).flatmap(lambda n: pairs(st.just(n), st.just(n))))
def test_loops_are_the_strongly_connected_components(both):
    relation, dense = both
    count, label = connected_components(csr_array(dense != 0.0), connection="strong")
    components = [np.flatnonzero(label == k).tolist() for k in range(count)]
    cyclic = [c for c in components if len(c) > 1 or dense[c[0], c[0]]]
    assert sorted(relation.loops()) == sorted(cyclic)


def test_a_product_of_other_sizes_is_refused():
    relation = Relation.of([0], [2], (2, 3))
    with pytest.raises(ValueError, match="3 columns"):
        relation @ np.zeros(2)
    with pytest.raises(ValueError, match="3 columns"):
        relation @ relation


@st.composite
def networks(draw):
    """Ports and connections of a few subsystems, with feedthrough."""
    n = draw(st.integers(1, 4))
    ports, sizes = {}, [(draw(st.integers(0, 3)), draw(st.integers(1, 3))) for _ in range(n)]
    for s, (nu, ny) in enumerate(sizes):
        inputs = tuple(Port(f"u{i}") for i in range(nu))
        through = [draw(st.sets(st.integers(0, nu - 1))) if nu else set() for _ in range(ny)]
        outputs = (Port(f"y{i}", feedthrough=[f"u{j}" for j in on]) for i, on in enumerate(through))
        ports[f"s{s}"] = Ports(inputs, tuple(outputs))
    sources = [f"{name}.{port.name}" for name, p in ports.items() for port in p.outputs]
    targets = [f"{name}.{port.name}" for name, p in ports.items() for port in p.inputs]
    wires = st.tuples(st.sampled_from(sources), st.sampled_from(targets), st.sampled_from((-1, 2)))
    chosen = draw(st.lists(wires, max_size=8)) if targets else []
    return ports, [{"from": a, "to": b, "gain": float(gain)} for a, b, gain in chosen]


@given(networks())
def test_the_plan_has_the_pairs_of_dense_matrices(network):
    ports, connections = network
    numerics = make_numerics(ports, connections=connections)
    net, plan = numerics.network, numerics.plan
    L, D = np.zeros((len(net.inputs), len(net.outputs))), net.feedthrough.dense()
    for c in connections:
        L[net.inputs.numbers[c["to"]], net.outputs.numbers[c["from"]]] += c["gain"]
    gives = np.eye(len(ports))[net.outputs.owner]
    owns = np.eye(len(ports))[net.inputs.owner]
    fed = ((L != 0.0) @ gives > 0) & (owns == 0.0)
    for table, names, expected in (
        (plan.feeds, ("input", "giver"), fed),
        (plan.passes, ("output", "giver"), D @ fed),
        (plan.receives, ("subsystem", "giver"), owns.T @ fed),
    ):
        for name, index in zip(names, np.nonzero(expected), strict=True):
            np.testing.assert_array_equal(table[name], index)
    np.testing.assert_array_equal(plan.outputs["coupled"], (L != 0.0).any(axis=0))
    through = D[:, net.connected].any(axis=1)
    np.testing.assert_array_equal(plan.inputs["lags"], (L[:, through] != 0.0).any(axis=1))
    needs = reach = D @ (L != 0.0) > 0
    for _ in range(len(reach)):
        reach = reach | (reach.astype(float) @ needs > 0)
    looped = net.outputs.owner[np.diag(reach)]
    assert net.loop_members() == sorted(set(looped.tolist()))
    assert net.initialization_order() == order_by_rounds(net, needs)


def order_by_rounds(net, needs):
    """In each round all subsystems whose sources are initialized; members of loops at the end."""
    of, order, n = net.outputs.owner, [], len(net.subsystems)
    while len(order) < n:
        left = [s for s in range(n) if s not in order]
        waits = {int(of[i]) for i, j in np.argwhere(needs) if of[j] in left}
        order += [s for s in left if s not in waits] or left
    return order
