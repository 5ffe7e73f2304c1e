# Makes of what was installed into the staging folder what Debian's policy asks of a package. CPack runs it before it packs.
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(prefix ${root}${CPACK_PACKAGING_INSTALL_PREFIX})
set(documents ${prefix}/share/doc/${CPACK_PACKAGE_NAME})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The licence, in the form and under the name that tools read.
file(READ ${CPACK_UNISONO_SOURCE}/LICENSE licence)
string(REGEX MATCH "Copyright \\(c\\) ([^\n]+)" holder "${licence}")
set(holder ${CMAKE_MATCH_1})
string(REGEX REPLACE "^.*All rights reserved\\.\n+" "" terms "${licence}")
string(STRIP "${terms}" terms)
string(REPLACE "\n\n" "\n.\n" terms "${terms}")
string(REPLACE "\n" "\n " terms "${terms}")
file(WRITE ${documents}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: unisono\n\n"
  "Files: *\nCopyright: ${holder}\nLicense: BSD-3-Clause\n\nLicense: BSD-3-Clause\n ${terms}\n")
file(REMOVE ${documents}/LICENSE)

# The changes, in Debian's form: an entry for each version of CHANGELOG.md.
run(awk -v package=${CPACK_PACKAGE_NAME} -v date=${CPACK_UNISONO_DATE} "-vmaintainer=${CPACK_DEBIAN_PACKAGE_MAINTAINER}"
  -f ${CPACK_UNISONO_SOURCE}/cmake/debian/changelog.awk ${CPACK_UNISONO_SOURCE}/CHANGELOG.md OUTPUT_FILE ${documents}/changelog)
file(GLOB_RECURSE pages ${prefix}/share/man/*)
run(gzip -9n ${documents}/changelog ${pages})

file(MAKE_DIRECTORY ${prefix}/share/lintian/overrides)
file(COPY_FILE ${CPACK_UNISONO_SOURCE}/cmake/debian/lintian-overrides ${prefix}/share/lintian/overrides/${CPACK_PACKAGE_NAME})

# The packages that the command and the library need are dependencies. Those that the plug-ins for MPI and hwloc and the drivers of the bench need are
# suggestions: plug-ins and drivers are used where these are installed, and say so where not.
file(GLOB_RECURSE needed ${prefix}/bin/* ${prefix}/${CPACK_UNISONO_LIBDIR}/*.so*)
file(GLOB_RECURSE helpers ${prefix}/libexec/*)
list(APPEND needed ${helpers})
set(optional ${needed})
list(FILTER optional INCLUDE REGEX "mpi|pmix|hwloc")
list(REMOVE_ITEM needed ${optional})
set(arguments)
foreach(file IN LISTS needed)
  if(NOT IS_SYMLINK ${file})
    list(APPEND arguments -e${file})
  endif()
endforeach()
list(APPEND arguments -dSuggests)
list(TRANSFORM optional PREPEND -e)
list(APPEND arguments ${optional})

set(work ${CPACK_TOPLEVEL_DIRECTORY}/dependencies)
file(WRITE ${work}/debian/control "Source: ${CPACK_PACKAGE_NAME}\n\nPackage: ${CPACK_PACKAGE_NAME}\nArchitecture: any\n")
file(WRITE ${work}/debian/shlibs.local "libunisono ${CPACK_UNISONO_SONAME_VERSION} ${CPACK_PACKAGE_NAME}\n")
execute_process(COMMAND dpkg-shlibdeps -O -x${CPACK_PACKAGE_NAME} -l${prefix}/${CPACK_UNISONO_LIBDIR} ${arguments}
  WORKING_DIRECTORY ${work} OUTPUT_VARIABLE found COMMAND_ERROR_IS_FATAL ANY)
foreach(field DEPENDS SUGGESTS)
  string(SUBSTRING ${field} 1 -1 small)
  string(SUBSTRING ${field} 0 1 first)
  string(TOLOWER ${small} small)
  if(NOT "\n${found}" MATCHES "\nshlibs:${first}${small}=([^\n]+)")
    message(FATAL_ERROR "dpkg-shlibdeps said nothing of ${field}: ${found}")
  endif()
  set(CPACK_DEBIAN_PACKAGE_${field} "${CMAKE_MATCH_1}")
endforeach()
string(APPEND CPACK_DEBIAN_PACKAGE_SUGGESTS ", cmake, g++, openmpi-bin | mpich, openssh-client")

# Programs that are linked to the library get a dependency on this package, and the dynamic linker learns of the library by dpkg's own trigger.
set(control ${CPACK_UNISONO_CONTROL})
file(WRITE ${control}/shlibs
  "libunisono ${CPACK_UNISONO_SONAME_VERSION} ${CPACK_PACKAGE_NAME} (>= ${CPACK_PACKAGE_VERSION})\n")
file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${control}/shlibs ${control}/triggers)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
