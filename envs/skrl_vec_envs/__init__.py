"""Vectorized environments in torch, and the views through which RL libraries see them.

A task (such as :mod:`skrl_vec_envs.snake`) is written once and needs torch and gymnasium only. Each module of
:mod:`skrl_vec_envs.views` imports the one library that it serves; none is imported from here.
"""
