"""Loggers that write on rank 0 alone, in the format of ignite's."""

import logging


def rank_logger(name, rank):
    """A logger with a handler of its own on rank 0, and none elsewhere. One that the program has given a handler stays as it is."""
    logger = logging.getLogger(name)
    ours = [handler for handler in logger.handlers if getattr(handler, "of_unisono", False)]
    if len(ours) < len(logger.handlers):
        return logger
    for handler in ours:
        logger.removeHandler(handler)
    handler = logging.NullHandler() if rank else logging.StreamHandler()
    handler.of_unisono = True
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return logger
