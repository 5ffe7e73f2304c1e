"""Horovod's functions are in unisono.horovod.torch. There is no computation model of it."""

has_hvd_support = False
HOROVOD = "horovod"
