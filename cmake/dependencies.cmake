# A missing requirement ends the configure step with the name of the package that brings it. A missing optional part is reported in the summary
# (unisono_note).

# unisono_note(<what> <package> <found>) adds one line to the summary.
function(unisono_note what package found)
  if(found)
    set_property(GLOBAL APPEND PROPERTY UNISONO_FOUND "${what}")
  else()
    set_property(GLOBAL APPEND PROPERTY UNISONO_MISSING "${what} (package ${package})")
  endif()
endfunction()

# unisono_need(<what> <package> <found>) does the same for a requirement.
function(unisono_need what package found)
  if(NOT found)
    message(FATAL_ERROR "unisono needs ${what}, which was not found. On Debian it comes with the package ${package}; "
                        "scripts/get/dependencies installs all of them.")
  endif()
  unisono_note("${what}" "${package}" TRUE)
endfunction()

find_package(Threads REQUIRED)

find_package(fmt QUIET)
unisono_need("fmt" libfmt-dev "${fmt_FOUND}")
# The headers of fmt alone take most of a compilation, so it is compiled once into each of our libraries and programs (src/base/fmt.cpp, for fmt 9),
# and no fmt is needed to run them. Builds for the sanitizers are not installed and use fmt's own library.
if(UNISONO_SANITIZE)
  set(unisono_fmt fmt::fmt)
elseif(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  set(unisono_fmt unisono_fmt_inside)
  add_library(unisono_fmt_headers INTERFACE)
  get_target_property(fmt_folders fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  target_include_directories(unisono_fmt_headers SYSTEM INTERFACE ${fmt_folders})
else()
  set(unisono_fmt fmt::fmt-header-only)
endif()

# PyTorch's headers bring an fmt of their own, of any version.
set(unisono_torch_fmt fmt::fmt-header-only)

find_package(OpenSSL QUIET)
unisono_need("OpenSSL" libssl-dev "${OPENSSL_FOUND}")

find_package(PkgConfig QUIET)
unisono_need("pkg-config" pkg-config "${PKG_CONFIG_FOUND}")

pkg_check_modules(HWY QUIET IMPORTED_TARGET libhwy)
unisono_need("Highway" libhwy-dev "${HWY_FOUND}")
# The headers alone: src/kernels/dispatch.h says why.
add_library(unisono_highway INTERFACE)
target_include_directories(unisono_highway SYSTEM INTERFACE ${HWY_INCLUDE_DIRS})

if(UNISONO_BUILD_COMMAND)
  find_package(CLI11 QUIET)
  unisono_need("CLI11 (UNISONO_BUILD_COMMAND)" libcli11-dev "${CLI11_FOUND}")
endif()

if(UNISONO_BUILD_COMMAND OR UNISONO_BUILD_BENCH)
  find_package(nlohmann_json QUIET)
  unisono_need("nlohmann-json (UNISONO_BUILD_COMMAND, UNISONO_BUILD_BENCH)" nlohmann-json3-dev "${nlohmann_json_FOUND}")
endif()

if(UNISONO_BUILD_TESTS)
  find_package(GTest QUIET)
  unisono_need("GoogleTest (UNISONO_BUILD_TESTS)" libgtest-dev "${GTest_FOUND}")
endif()
