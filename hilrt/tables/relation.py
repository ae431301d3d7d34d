"""Relations between ports or subsystems as lists of neighbours, not as dense matrices.

A matrix between the ports of a session has few entries: an input has one or two sources, however
many subsystems there are. All costs here, time and memory, are proportional to the number of
entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from hilrt.solver import Floats
from hilrt.tables.ports import Bools, Ints


@dataclass(frozen=True, eq=False)
class Relation:
    """A sparse matrix: pairs of a related row and column, each with a weight.

    Attributes
    ----------
    shape : (int, int)
        Numbers of rows and of columns.
    row, column : ndarray of int, shape (pairs,)
        Sorted by row and then by column, without duplicates.
    weight : ndarray, shape (pairs,)
        Non-zero.
    """

    shape: tuple[int, int]
    row: Ints
    column: Ints
    weight: Floats

    @classmethod
    def of(
        cls, row: ArrayLike, column: ArrayLike, shape: tuple[int, int], weight: ArrayLike = 1.0
    ) -> Relation:
        """Build a relation from its pairs, in any order.

        Parameters
        ----------
        row, column : array_like of int, shape (pairs,)
        shape : (int, int)
        weight : array_like, shape (pairs,) or ()
            Weights of equal pairs are added in the given order; pairs whose sum is zero are left
            out.
        """
        keys = np.asarray(row, dtype=np.intp) * shape[1] + np.asarray(column, dtype=np.intp)
        weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), keys.shape)
        pairs, place = np.unique(keys, return_inverse=True)
        total = np.bincount(place, weights=weights, minlength=len(pairs))
        pairs, total = pairs[total != 0.0], total[total != 0.0]
        return cls(shape, pairs // max(shape[1], 1), pairs % max(shape[1], 1), total)

    def __len__(self) -> int:
        return len(self.row)

    @cached_property
    def first(self) -> Ints:
        """Index of every row's first pair, then the number of pairs, shape (rows + 1,)."""
        return np.searchsorted(self.row, np.arange(self.shape[0] + 1))

    @cached_property
    def transposed(self) -> Relation:
        """The transposed relation."""
        order = np.argsort(self.column, kind="stable")
        shape = (self.shape[1], self.shape[0])
        return Relation(shape, self.column[order], self.row[order], self.weight[order])

    @cached_property
    def in_row(self) -> Bools:
        """Whether a row has any pair, shape (rows,)."""
        return np.diff(self.first) > 0

    def pattern(self) -> Relation:
        """The same pairs, each with the weight 1."""
        return Relation(self.shape, self.row, self.column, np.ones(len(self)))

    def neighbours(self, row: int) -> Ints:
        """Columns that are related to a row, ascending."""
        return self.column[self.first[row] : self.first[row + 1]]

    def value(self, row: int, column: int) -> float:
        """Weight of a pair; 0 if it is not related."""
        start, stop = self.first[row], self.first[row + 1]
        at = start + np.searchsorted(self.column[start:stop], column)
        return float(self.weight[at]) if at < stop and self.column[at] == column else 0.0

    def part(self, rows: slice) -> Relation:
        """The rows of a slice without a step, counted from its start."""
        own = slice(self.first[rows.start], self.first[rows.stop])
        shape = (rows.stop - rows.start, self.shape[1])
        return Relation(shape, self.row[own] - rows.start, self.column[own], self.weight[own])

    def where(self, rows: Bools | None = None, columns: Bools | None = None) -> Relation:
        """The pairs whose row and column are both selected, by masks (rows,) and (columns,)."""
        keep = np.ones(len(self), dtype=bool)
        for index, mask in ((self.row, rows), (self.column, columns)):
            if mask is not None:
                keep &= mask[index]
        return Relation(self.shape, self.row[keep], self.column[keep], self.weight[keep])

    @overload
    def __matmul__(self, other: Relation) -> Relation: ...

    @overload
    def __matmul__(self, other: ArrayLike) -> Floats: ...

    def __matmul__(self, other: Relation | ArrayLike) -> Relation | Floats:
        """Product with a vector, shape (columns,), or with a relation of as many rows.

        Terms are added in the order of the columns.
        """
        if not isinstance(other, Relation):
            vector = np.asarray(other, dtype=np.float64)
            if vector.shape != self.shape[1:]:
                raise ValueError(f"a vector of shape {vector.shape} for {self.shape[1]} columns")
            terms = self.weight * vector[self.column]
            return np.asarray(np.bincount(self.row, terms, self.shape[0]), dtype=np.float64)
        if other.shape[0] != self.shape[1]:
            raise ValueError(f"a relation of shape {other.shape} for {self.shape[1]} columns")
        counts = np.diff(other.first)[self.column]
        mine = np.repeat(np.arange(len(self)), counts)
        # Indices of the other's pairs: each run of `counts` begins where its row begins.
        begin = other.first[self.column] - np.cumsum(counts) + counts
        theirs = np.arange(len(mine)) + begin[mine]
        return Relation.of(
            self.row[mine],
            other.column[theirs],
            (self.shape[0], other.shape[1]),
            self.weight[mine] * other.weight[theirs],
        )

    def dense(self) -> Floats:
        """The whole matrix; use it only if its size is bounded."""
        matrix = np.zeros(self.shape)
        matrix[self.row, self.column] = self.weight
        return matrix

    def loops(self) -> list[list[int]]:
        """Strongly connected components of a square relation that contain a cycle, each ascending.

        A single row counts only if it is related to itself. Tarjan (1972), without recursion.
        """
        columns, first = self.column.tolist(), self.first.tolist()
        n, found = self.shape[0], list[list[int]]()
        number, low, at = [-1] * n, [0] * n, first[:n]
        open_, is_open = list[int](), [False] * n
        count = 0
        for root in range(n):
            way = [root] if number[root] < 0 else []
            while way:
                v = way[-1]
                if number[v] < 0:
                    number[v] = low[v] = count
                    count += 1
                    open_.append(v)
                    is_open[v] = True
                if at[v] < first[v + 1]:
                    w = columns[at[v]]
                    at[v] += 1
                    if number[w] < 0:
                        way.append(w)
                    elif is_open[w]:
                        low[v] = min(low[v], number[w])
                    continue
                way.pop()
                if way:
                    low[way[-1]] = min(low[way[-1]], low[v])
                if low[v] == number[v]:
                    members = list[int]()
                    while not members or members[-1] != v:
                        members.append(open_.pop())
                        is_open[members[-1]] = False
                    if len(members) > 1 or self.value(v, v):
                        found.append(sorted(members))
        return found
