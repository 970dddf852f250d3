# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays down: the library, its headers, the CMake package `coda` (target
# coda::coda), coda-gemm.pc, the programs of library/ and the command line. Nothing that coda uses inside
# reaches the interface of the target: a user links one shared library and needs the C++ standard library.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set_target_properties(coda_gemm PROPERTIES
  EXPORT_NAME coda
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
install(TARGETS coda_gemm EXPORT coda
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT coda NAMESPACE coda:: FILE codaTargets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/coda)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/codaConfig.cmake.in
  ${PROJECT_BINARY_DIR}/codaConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/coda)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/codaConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/codaConfig.cmake ${PROJECT_BINARY_DIR}/codaConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/coda)

# Paths relative to the file itself, so that an installed tree may be moved.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/coda-gemm.pc.in ${PROJECT_BINARY_DIR}/coda-gemm.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/coda-gemm.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/coda ${PROJECT_BINARY_DIR}/include/coda
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/library/ DESTINATION ${CMAKE_INSTALL_DATADIR}/coda
  FILES_MATCHING PATTERN "*.coda")
if(TARGET coda)
  install(TARGETS coda RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
