"""The memory of checks for each byte: at most what docs/simulator.md states."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tilewright.sim.machine.address import Address
from tilewright.sim.order.races.places import TaggedPlaces
from tilewright.sim.order.races.records import RECORD_BYTES, RECORDS, Log

NBYTES = 1 << 20


def taken(places: TaggedPlaces) -> int:
    return sum(array.nbytes for array in (places.tags_of(places.writes).data, places.tags_of(places.reads).data))


@pytest.mark.parametrize("width", [1, 2, 4, 16])
@pytest.mark.parametrize(("is_global", "bytes_of_a_place"), [(False, 8), (True, 16)])
def test_the_race_check_takes_two_tags_for_each_place(width: int, is_global: bool, bytes_of_a_place: int) -> None:
    places = TaggedPlaces("memory", NBYTES, width, ctas=0 if is_global else 1)

    assert taken(places) == bytes_of_a_place * NBYTES // width


def test_tags_are_kept_for_each_cta_only_once_they_differ() -> None:
    places = TaggedPlaces("memory", NBYTES, 4, ctas=8)

    assert taken(places) == 8 * NBYTES // 4
    places.part()
    assert taken(places) == 8 * 8 * NBYTES // 4


def logged(records: int, nbytes: int) -> Log:
    log = Log()
    for time in range(records):
        how = SimpleNamespace(sem="weak", scope="sys", by_unit=False)
        site = SimpleNamespace(write=False, how=how, element=4)
        log.add(cast(Any, SimpleNamespace(time=time, at=Address(0), site=site, nbytes=nbytes)))
    return log


def test_the_last_records_are_kept_and_nothing_of_older_ones() -> None:
    log = logged(2 * RECORDS, nbytes=0)

    assert [record.time for record in log.newest_first()] == list(range(2 * RECORDS - 1, RECORDS - 1, -1))
    assert log.find(0, 0) is None
    assert len(log._by_time) == RECORDS


def test_records_are_kept_while_their_addresses_have_room() -> None:
    assert [record.time for record in logged(20, nbytes=RECORD_BYTES // 8).newest_first()] == list(range(19, 11, -1))
    assert [record.time for record in logged(3, nbytes=2 * RECORD_BYTES).newest_first()] == [2]
