# Before CPack makes the packages: a changelog in Debian's form for each, compressed as Debian wants
# it, and the manual pages likewise.
file(GLOB documents ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/doc/*)
foreach(folder ${documents})
  cmake_path(GET folder FILENAME package)
  file(WRITE ${folder}/changelog "${package} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * CHANGELOG.md of the sources has the changes of each version.

 -- ${CPACK_PACKAGE_CONTACT}  Fri, 27 Nov 2026 00:00:00 +0000
")
endforeach()
file(GLOB_RECURSE plain ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/man/*.1
                        ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/doc/*/changelog)
execute_process(COMMAND gzip -9n ${plain} COMMAND_ERROR_IS_FATAL ANY)
