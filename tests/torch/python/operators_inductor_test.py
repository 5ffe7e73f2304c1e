"""The operators torch.ops.unisono in programs that inductor compiles. Run as several ranks."""

import operators_compile_test
from ranks import main


class Inductor(operators_compile_test.Compiled):
    backend = "inductor"


if __name__ == "__main__":
    main(timeout=300)  # each rank compiles by itself
