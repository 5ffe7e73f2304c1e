# For scripts/test/arm64 and `scripts/package/wheels --arm64`: Debian's cross compiler, the libraries of the folder that scripts/get/arm64 fills, and
# QEMU to run what was built.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(UNISONO_ARM64_ROOT "${CMAKE_CURRENT_LIST_DIR}/../build/arm64-root" CACHE PATH "The folder with the libraries")
cmake_path(ABSOLUTE_PATH UNISONO_ARM64_ROOT NORMALIZE OUTPUT_VARIABLE unisono_arm64_root)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES UNISONO_ARM64_ROOT)
set(CMAKE_SYSROOT ${unisono_arm64_root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${unisono_arm64_root}/usr/lib/aarch64-linux-gnu/pkgconfig:${unisono_arm64_root}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${unisono_arm64_root})

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${unisono_arm64_root})
