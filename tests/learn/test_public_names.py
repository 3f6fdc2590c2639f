"""Hooks of gradients and bounds of parameters are namespaces; the base class of policies is public."""

import abc

import pytest

import backflip as bf


def test_namespaces_are_public_names():
    assert {"fade", "truncate", "clip", "clip_per_robot"} <= set(bf.gradients.__all__)
    assert {"positive", "interval"} <= set(bf.bounds.__all__)
    assert {"gradients", "bounds", "Policy", "open_loop"} <= set(dir(bf))


@pytest.mark.parametrize("old", ["clip", "cut", "fade", "limit", "play", "positive", "windows", "within"])
def test_names_that_said_too_little_are_gone(old):
    assert not hasattr(bf, old)


def test_a_policy_is_one_base_class_with_a_memory_to_start_with():
    assert all(issubclass(kind, bf.Policy) for kind in (bf.MLP, bf.Elman, bf.GRU, bf.LSTM))
    assert isinstance(bf.Policy, abc.ABCMeta)
    with pytest.raises(TypeError, match="abstract"):
        bf.Policy()
