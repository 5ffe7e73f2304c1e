if(NOT UNISONO_INSTALL)
  return()
endif()

include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/unisono)

set(namelink)
if(UNISONO_WHEEL)
  set(namelink NAMELINK_SKIP)
endif()
install(TARGETS unisono EXPORT unisono-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${namelink}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/unisono DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET unisono-tool)
  install(TARGETS unisono-tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(NOT UNISONO_WHEEL)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
endif()

# The package finds its files relative to itself, so the whole prefix may be moved.
install(EXPORT unisono-targets NAMESPACE unisono:: DESTINATION ${package_folder})
# The component torch has an export file of its own, so that other users need no LibTorch.
if(TARGET unisono_torch)
  install(TARGETS unisono_torch EXPORT unisono-torch-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT unisono-torch-targets NAMESPACE unisono:: DESTINATION ${package_folder})
  set(UNISONO_TORCH_VERSION ${Torch_VERSION})
  # The package uses the PyTorch it was built with where no other is named. This is the only folder of the build machine that it knows, and it
  # has a file of its own.
  set(torch_location ${PROJECT_BINARY_DIR}/unisono-torch-location.cmake)
  file(CONFIGURE OUTPUT ${torch_location} CONTENT "set(unisono_torch_built_with \"@Torch_DIR@\")\n" @ONLY)
  install(FILES ${torch_location} DESTINATION ${package_folder})
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/unisono-config.cmake.in ${PROJECT_BINARY_DIR}/unisono-config.cmake
  INSTALL_DESTINATION ${package_folder})
# A minor version may break programs until 1.0.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/unisono-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/unisono-config.cmake ${PROJECT_BINARY_DIR}/unisono-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/unisono-find-torch.cmake DESTINATION ${package_folder})

# For builds without CMake; a wheel has no file of the name that the linker looks for.
if(NOT UNISONO_WHEEL)
  file(RELATIVE_PATH unisono_pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  if(unisono_static)
    set(unisono_pc_requires libcrypto)
    list(TRANSFORM CMAKE_DL_LIBS PREPEND " -l" OUTPUT_VARIABLE unisono_pc_libraries)
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/unisono.pc.in ${PROJECT_BINARY_DIR}/unisono.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/unisono.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
