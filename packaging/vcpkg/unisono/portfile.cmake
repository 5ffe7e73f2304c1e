# Parsed by scripts/check/recipes; not built. The port takes the sources that it lies in; one in a registry names an archive by vcpkg_from_git.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS FEATURES command UNISONO_BUILD_COMMAND etcd UNISONO_ETCD)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${FEATURE_OPTIONS} -DUNISONO_BUILD_TESTS=OFF -DUNISONO_BUILD_EXAMPLES=OFF -DUNISONO_BUILD_BENCH=OFF -DUNISONO_BUILD_PYTHON=OFF -DUNISONO_TORCH=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/unisono)
vcpkg_fixup_pkgconfig()
if("command" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES unisono AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
