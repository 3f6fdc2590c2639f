"""What is kept for derivatives: computed once, constant to derivatives of every order and kind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backflip import lanes
from backflip.math import keep, keeping

X = np.linspace(0.2, 2.0, 5)


@lanes.compile
def kept(x):
    return keep(jnp.cos(x)) * x * x


def plain(x):
    return jax.lax.stop_gradient(jnp.cos(x)) * x * x


WAYS = {
    "value": lambda f: f,
    "gradient": lambda f: jax.vmap(jax.grad(f)),
    "tangent": lambda f: lambda x: jax.jvp(f, (x,), (x,))[1],
    "second derivative": lambda f: jax.vmap(jax.hessian(f)),
    "checkpoint": lambda f: jax.vmap(jax.grad(jax.checkpoint(f))),
    "checkpoint that keeps": lambda f: jax.vmap(jax.grad(jax.checkpoint(f, policy=keeping))),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_a_constant_to_derivatives(way):
    found, wanted = (jax.jit(WAYS[way](f))(jnp.asarray(X)) for f in (kept, plain))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_the_backward_pass_of_a_scan_does_not_compute_it_again():
    def last(x):
        once = jax.checkpoint(lambda x, _: (kept(x), None), policy=keeping, prevent_cse=False)
        return jax.lax.scan(once, x, None, length=3)[0]

    scans = [eqn for eqn in jax.make_jaxpr(jax.grad(last))(0.5).eqns if eqn.primitive.name == "scan"]
    forward, backward = (str(scan.params["jaxpr"]) for scan in scans)
    assert forward.count("lanes_call") == backward.count("lanes_call") == 1
    programs = [eqn.params["program"] for eqn in _calls(scans[1].params["jaxpr"].jaxpr)]
    assert "cos" not in str(programs[0].closed)


def _calls(jaxpr):
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "lanes_call":
            yield eqn
        if "jaxpr" in eqn.params:
            yield from _calls(getattr(eqn.params["jaxpr"], "jaxpr", eqn.params["jaxpr"]))
