message(STATUS "unisono ${PROJECT_VERSION}: build type ${CMAKE_BUILD_TYPE}")
