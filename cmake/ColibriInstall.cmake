# Headers, the single header, the CMake package; the programs if they were built.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/colibri)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/colibri DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(TARGETS colibri EXPORT colibriTargets)
install(EXPORT colibriTargets NAMESPACE colibri:: DESTINATION ${package_dir})
write_basic_package_version_file(colibriConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/colibriConfig.cmake ${PROJECT_SOURCE_DIR}/cmake/ColibriHighway.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/colibriConfigVersion.cmake DESTINATION ${package_dir})
