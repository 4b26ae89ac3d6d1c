"""The clock of a simulation, with the members that tasks and environments ask of Isaac Sim's world."""

from __future__ import annotations

from typing import Any


class Scene:
    """The objects that a task put on the stage, by name."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}

    def add(self, scene_object: Any) -> Any:
        """Add an object, which has a name of its own.

        :param scene_object: Object with a ``name``; its ``initialize(physics_sim_view)`` is called before the task's
            ``post_reset``, its ``post_reset()`` after that, where it has them.

        :return: The object.

        :raises ValueError: There is another object of that name.
        """
        if scene_object.name in self._objects:
            raise ValueError(f"the scene has an object named {scene_object.name!r} already: give each its own name")
        self._objects[scene_object.name] = scene_object
        return scene_object

    def object_exists(self, name: str) -> bool:
        """Tell whether there is an object of that name."""
        return name in self._objects

    def get_object(self, name: str) -> Any:
        """Return the object of that name, or None."""
        return self._objects.get(name)

    def remove_object(self, name: str, registry_only: bool = False) -> None:
        """Forget the object of that name.

        :raises ValueError: There is none.
        """
        if name not in self._objects:
            raise ValueError(f"the scene has no object named {name!r}, but {sorted(self._objects)}")
        del self._objects[name]

    def add_default_ground_plane(self, *args: Any, **kwargs: Any) -> None:
        """Accept a ground plane: what it does to bodies is the business of the dynamics."""

    def objects(self) -> list[Any]:
        """Return all objects, in the order in which they were added."""
        return list(self._objects.values())


class World:
    """Runs the scene's set-up, and the task's ``simulate`` in place of PhysX.

    :param physics_dt: Seconds that a step simulates.
    :param rendering_dt: Seconds between two pictures; nothing is rendered.
    """

    def __init__(self, physics_dt: float, rendering_dt: float) -> None:
        self.scene = Scene()
        self.current_time = 0.0
        """Simulated seconds."""
        self.current_time_step_index = 0
        """Simulated steps."""
        self._physics_dt = physics_dt
        self._rendering_dt = rendering_dt
        self._playing = False
        self._tasks: dict[str, Any] = {}
        self._is_set_up = False

    def add_task(self, task: Any) -> None:
        """Add a task, whose scene :meth:`reset` sets up."""
        self._tasks[task.name] = task

    def get_task(self, name: str) -> Any:
        """Return the task of that name."""
        return self._tasks[name]

    def reset(self, soft: bool = False) -> None:
        """Set up the scene of the tasks, the first time, initialize its objects, and begin to play.

        :param soft: Keep the objects as they are initialized.
        """
        if not self._is_set_up:
            for task in self._tasks.values():
                task.open_stage()
                task.set_up_scene(self.scene)
            self._is_set_up = True
        self.play()
        if not soft:
            _call_all(self.scene.objects(), "initialize", None)
        _call_all(self.scene.objects(), "post_reset")
        for task in self._tasks.values():
            task.post_reset()

    def step(self, render: bool = True) -> None:
        """Simulate for ``physics_dt`` seconds, unless paused or stopped.

        :param render: Accepted, without effect.
        """
        if not self._playing:
            return
        for task in self._tasks.values():
            task.pre_step(self.current_time_step_index, self.current_time)
            task.simulate(self._physics_dt)
        self.current_time += self._physics_dt
        self.current_time_step_index += 1

    def render(self) -> None:
        """Do nothing: there is no picture."""

    def play(self) -> None:
        """Let time go on."""
        self._playing = True

    def pause(self) -> None:
        """Let time stand still until :meth:`play`."""
        self._playing = False

    def stop(self) -> None:
        """Let time stand still, and begin anew at zero."""
        self._playing = False
        self.current_time, self.current_time_step_index = 0.0, 0

    def is_playing(self) -> bool:
        """Tell whether time goes on."""
        return self._playing

    def is_stopped(self) -> bool:
        """Tell whether time stands still at zero."""
        return not self._playing and self.current_time_step_index == 0

    def get_physics_dt(self) -> float:
        """Return the seconds that a step simulates."""
        return self._physics_dt

    def get_rendering_dt(self) -> float:
        """Return the seconds between two pictures."""
        return self._rendering_dt

    def get_physics_context(self) -> PhysicsContext:
        """Return the settings of the simulator."""
        return PhysicsContext(self._physics_dt)


class PhysicsContext:
    """Settings of the simulator that tasks read.

    :param physics_dt: Seconds that a step simulates.
    """

    prim_path = "/physicsScene"

    def __init__(self, physics_dt: float) -> None:
        self._physics_dt = physics_dt

    def get_physics_dt(self) -> float:
        """Return the seconds that a step simulates."""
        return self._physics_dt


def _call_all(objects: list[Any], method: str, *arguments: Any) -> None:
    for scene_object in objects:
        if hasattr(scene_object, method):
            getattr(scene_object, method)(*arguments)
