"""Properties become a map column in one of two ways; both say the same."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.rocketmq.batches import _maps, _maps_by_dictionaries
from spark_jobs.rocketmq.properties import Properties

REGULAR = st.dictionaries(
    st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "größe"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02")),
).map(lambda each: "".join(f"{name}\x01{value}\x02" for name, value in each.items()).encode())
# Separators in odd places, names twice, bytes that are no UTF-8.
ANY = st.lists(st.sampled_from([b"KEYS", b"TAGS", b"\x01", b"\x02", b"a b", b"\xff", b"\xe6\xbc\xa2"])).map(
    b"".join
)


@given(st.one_of(st.lists(REGULAR), st.lists(st.one_of(REGULAR, ANY))))
@example([b"KEYS\x01a\x02\x02\x02", b"KEYS\x01\x02"])
@example([b"KEYS\x01a\x01b\x02"])
@example([b"", b"KEYS\x01a"])
@example([b"KEYS\x01a\x02KEYS\x01b\x02"])
def test_the_quick_way_is_the_plain_one(stored: list[bytes]):
    properties = [Properties(each) for each in stored]
    maps, keys = _maps(properties)
    plain_maps, plain_keys = _maps_by_dictionaries(properties)
    assert maps.to_pylist() == plain_maps.to_pylist()
    assert keys.to_pylist() == plain_keys.to_pylist()
    assert maps.to_pylist(maps_as_pydicts="strict") == [dict(each) for each in properties]
