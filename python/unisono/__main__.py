"""The command `unisono`, as `python -m unisono` and as the script of the wheel; --cmake-prefix says where CMake finds the library."""

import os
import sys


def main():
    from ._paths import cmake_prefix, command

    if sys.argv[1:] == ["--cmake-prefix"]:
        print(cmake_prefix())
        return 0
    path = command()
    # The name under which it speaks of itself.
    os.execv(path, ["unisono", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
