"""Speed of the snake: ours, the peers that PyPI has, and the limit, in M steps of snakes per second.

The peers are installed into an environment of their own (``build/snake-peers``), and each runs in a process of its own:
entity-gym-rs' multisnake (Rust), Jumanji's snake (JAX), and PufferLib's (C) where they can be installed. Each line is
the best of several short runs. All write observations of 10 x 10 boards and start ended games anew; the limit is to
zero the float32 tensor of observations, and nothing else.

    python benchmarks/snake_speed.py --output build/snake_speed.png
"""

# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator"
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SIZE = 10
STEPS = 16  # of one run
PEERS = {
    "entity-gym-rs": ["--only-binary=:all:", "--no-deps", "entity-gym-rs==0.8.0", "ragged-buffer==0.4.8", "numpy<2"],
    "jumanji": ["jumanji"],
    "pufferlib": ["pufferlib"],
}
Row = dict[str, Any]


def best_time(run: Callable[[], Any], seconds: float) -> float:
    """Return the shortest time of a run, in seconds, after one that is not timed."""
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def ours(options: argparse.Namespace) -> list[Row]:
    """Time our backends, at one batch size and number of threads."""
    import torch

    from skrl_vec_envs.snake import Snake

    torch.set_num_threads(options.threads)
    rows: list[Row] = []
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("numba, float32", {"backend": "numba"}),
        ("numba, float32, final_obs of ended rows", {"backend": "numba", "final_obs": "ended"}),
        ("numba, uint8", {"backend": "numba", "dtype": torch.uint8}),
        ("numba, uint8, final_obs of ended rows", {"backend": "numba", "dtype": torch.uint8, "final_obs": "ended"}),
        ("numba, uint8, multisnake", {"backend": "numba", "dtype": torch.uint8, "rules": "multisnake"}),
        ("numba, uint8, 4 snakes", {"backend": "numba", "dtype": torch.uint8, "num_snakes": 4}),
        (
            "numba, uint8, 4 snakes, multisnake",
            {"backend": "numba", "dtype": torch.uint8, "rules": "multisnake", "num_snakes": 4},
        ),
        ("torch, float32", {"backend": "torch"}),
        ("torch, float32, final_obs of ended rows", {"backend": "torch", "final_obs": "ended"}),
        ("torch, uint8", {"backend": "torch", "dtype": torch.uint8}),
    ]
    for name, parameters in kinds:
        env = Snake(options.num_envs, threads=options.threads, **parameters)
        env.reset()
        actions = [torch.randint(4, env.batch_shape) for _ in range(STEPS)]

        def play(env: Any = env, actions: Any = actions) -> None:
            for some in actions:
                env.step(some)

        for _ in range(10):
            play()  # long enough for the mix of old and new games
        steps = STEPS * actions[0].numel()
        rows.append({"name": name, "player": "random", "speed": steps / best_time(play, options.seconds)})
        if env.rules.num_snakes == 1:
            rows.append({"name": name, "player": "greedy", "speed": greedy_speed(env, options)})
    zeros = torch.empty(options.num_envs, 3, SIZE, SIZE)
    limit = best_time(lambda: [zeros.zero_() for _ in range(STEPS)], options.seconds)
    rows.append({"name": "limit: zeroing float32", "player": "", "speed": STEPS * options.num_envs / limit})
    return rows


def greedy_speed(env: Any, options: argparse.Namespace) -> float:
    """Time the steps alone of games that a greedy player plays, whose snakes are long."""
    from skrl_vec_envs.snake.players import greedy

    observations, _ = env.reset()
    for _ in range(300):
        env.step(greedy(env, observations))
    times = []
    for _ in range(40):
        actions = greedy(env, observations)
        start = time.perf_counter()
        env.step(actions)
        times.append(time.perf_counter() - start)
    return float(options.num_envs / min(times))


def entity_gym_rs(options: argparse.Namespace) -> list[Row]:
    """Time multisnake, past the Python layer around it, which needs packages that no longer install."""
    import importlib.util
    import sysconfig

    import numpy as np

    library = next(Path(sysconfig.get_paths()["platlib"], "entity_gym_rs").glob("*.so"))
    spec = importlib.util.spec_from_file_location("entity_gym_rs", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows: list[Row] = []
    for snakes in (1, 4):
        env = module.multisnake(
            num_envs=options.num_envs,
            threads=options.threads,
            board_size=SIZE,
            num_snakes=snakes,
            max_snake_length=10,
            max_steps=100,
        )
        env.reset()
        generator = np.random.default_rng(0)
        counts = np.full(options.num_envs, snakes)
        actions = [(generator.integers(4, size=(options.num_envs * snakes, 1)), counts) for _ in range(STEPS)]

        def play(env: Any = env, actions: Any = actions) -> None:
            for some in actions:
                env.act([some])

        name = "entity-gym-rs multisnake" + (", 4 snakes" if snakes > 1 else "")
        speed = STEPS * options.num_envs * snakes / best_time(play, options.seconds)
        rows.append({"name": name, "player": "random", "speed": speed})
    return rows


def jumanji(options: argparse.Namespace) -> list[Row]:
    """Time Jumanji's snake: a compiled loop of steps of a batch with auto-reset."""
    import jax
    from jumanji.environments import Snake
    from jumanji.wrappers import VmapAutoResetWrapper

    env = VmapAutoResetWrapper(Snake(num_rows=SIZE, num_cols=SIZE))
    state, _ = env.reset(jax.random.split(jax.random.PRNGKey(0), options.num_envs))
    actions = jax.random.randint(jax.random.PRNGKey(1), (STEPS, options.num_envs), 0, 4)

    @jax.jit
    def steps(state: Any) -> Any:
        def one(state: Any, some: Any) -> Any:
            state, timestep = env.step(state, some)
            return state, timestep.observation.grid.sum((1, 2, 3))

        return jax.lax.scan(one, state, actions)

    def play() -> None:
        nonlocal state
        state, seen = steps(state)
        seen.block_until_ready()

    speed = STEPS * options.num_envs / best_time(play, options.seconds)
    return [{"name": "jumanji (JAX)", "player": "random", "speed": speed}]


def pufferlib(options: argparse.Namespace) -> list[Row]:
    """Time PufferLib's snake (C), as many snakes as we have boards, of 10 x 10 cells each on average."""
    import numpy as np
    from pufferlib.ocean.snake.snake import Snake

    side = int((SIZE * SIZE * options.num_envs) ** 0.5)
    env = Snake(widths=[side], heights=[side], num_snakes=[options.num_envs], num_food=[options.num_envs])
    env.reset()
    actions = np.random.randint(0, 4, (STEPS, options.num_envs))

    def play() -> None:
        for some in actions:
            env.step(some)

    speed = STEPS * options.num_envs / best_time(play, options.seconds)
    return [{"name": "pufferlib (C)", "player": "random", "speed": speed}]


WORKERS: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
    "ours": ours,
    "entity-gym-rs": entity_gym_rs,
    "jumanji": jumanji,
    "pufferlib": pufferlib,
}


def python_of(peer: str, folder: Path) -> str | None:
    """Return the interpreter of a peer's environment, which is made first; None where the peer does not install."""
    python = folder / peer / "bin" / "python"
    if not (folder / peer / ".installed").exists():
        print(f"installing {peer} ...", flush=True)
        venv.create(folder / peer, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", *PEERS[peer]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode:
            print(f"  {peer} does not install here: {done.stderr.strip().splitlines()[-1]}")
            return None
        (folder / peer / ".installed").touch()
    return str(python)


def measure(worker: str, python: str, num_envs: int, threads: int, seconds: float) -> list[Row]:
    """Run a worker in a process of its own."""
    command = [python, __file__, "--worker", worker, "--num-envs", str(num_envs), "--threads", str(threads)]
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")}
    environment = os.environ | limits | {"XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}"}
    if hasattr(os, "sched_setaffinity"):
        command = ["taskset", "-c", f"0-{threads - 1}", *command] if threads < (os.cpu_count() or 1) else command
    done = subprocess.run([*command, "--seconds", str(seconds)], capture_output=True, text=True, env=environment)
    if done.returncode:
        print(f"  {worker} failed: {done.stderr.strip().splitlines()[-1]}")
        return []
    rows: list[Row] = json.loads(done.stdout.splitlines()[-1])
    return [row | {"num_envs": num_envs, "threads": threads} for row in rows]


def table(rows: list[Row], num_envs: int, threads: int) -> str:
    """Format the lines of one batch size and number of threads, with the ratios to the peers and to the limit."""
    here = [row for row in rows if (row["num_envs"], row["threads"]) == (num_envs, threads)]
    references = [row for row in here if row["name"].startswith(("entity", "jumanji", "puffer", "limit"))]
    titles = [row["name"].split(":")[0].replace(" multisnake", "") for row in references]
    lines = [f"\nN = {num_envs}, {threads} thread(s), M steps/s and multiples of the others' speed"]
    lines.append("| | player | M steps/s | " + " | ".join(f"x {title}" for title in titles) + " |")
    lines.append("|---|---|" + "---|" * (1 + len(titles)))
    for row in here:
        ratios = " | ".join(f"{row['speed'] / reference['speed']:.2f}" for reference in references)
        lines.append(f"| {row['name']} | {row['player']} | {row['speed'] / 1e6:.2f} | {ratios} |")
    return "\n".join(lines)


def plot(rows: list[Row], path: Path) -> None:
    """Draw speed over batch size, a panel per number of threads."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    counts = sorted({row["threads"] for row in rows})
    figure, axes = pyplot.subplots(
        1, len(counts), figsize=(6.5 * len(counts), 6), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, threads in zip(axes[0], counts, strict=True):
        shown = [row for row in rows if row["threads"] == threads and row["player"] != "greedy"]
        for name in dict.fromkeys(row["name"] for row in shown):
            points = [(row["num_envs"], row["speed"] / 1e6) for row in shown if row["name"] == name]
            style = "k--" if name.startswith("limit") else "o-" if name[:5] in ("numba", "torch") else "s:"
            axis.plot(*zip(*points, strict=True), style, label=name)
        axis.set(xscale="log", yscale="log", xlabel="boards", title=f"{threads} thread(s)")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("M steps of snakes per second")
    lines, names = axes[0][-1].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=3, fontsize=8)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure all, print tables and save the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[64, 1024, 4096, 16384], help="boards")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="threads")
    parser.add_argument("--seconds", type=float, default=1.0, help="for which each line is timed")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS), help="peers to compare with")
    parser.add_argument("--environments", type=Path, default=Path("build/snake-peers"), help="folder of the peers'")
    parser.add_argument("--output", type=Path, default=Path("build/snake_speed.png"), help="picture to save")
    parser.add_argument("--worker", choices=list(WORKERS), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.worker:
        options.num_envs, options.threads = options.num_envs[0], options.threads[0]
        print(json.dumps(WORKERS[options.worker](options)))
        return
    pythons = {"ours": sys.executable} | {
        peer: python for peer in options.peers if (python := python_of(peer, options.environments.resolve()))
    }
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} (other work makes all of this slower)")
    rows: list[Row] = []
    for threads in options.threads:
        for num_envs in options.num_envs:
            for worker, python in pythons.items():
                rows += measure(worker, python, num_envs, threads, options.seconds)
            print(table(rows, num_envs, threads), flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.with_suffix(".json").write_text(json.dumps(rows, indent=1))
    plot(rows, options.output)
    print(f"\nplot: {options.output}")


if __name__ == "__main__":
    main()
