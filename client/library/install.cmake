# What other programs are built with: `cmake --install BUILD --component client`.
# The archives of the library and of what it needs, their headers under the paths
# that they are included by, and what find_package(attn) and pkg-config read.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# In the order in which a linker wants them.
set(rooms client_library client_tensor codec proto core)
set(headers ${CMAKE_INSTALL_INCLUDEDIR}/attn)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/attn)

set(targets)
set(ATTN_LINK_FLAGS)
foreach(room IN LISTS rooms)
  list(APPEND targets attn_${room})
  string(APPEND ATTN_LINK_FLAGS " -lattn_${room}")
  set_target_properties(attn_${room} PROPERTIES EXPORT_NAME ${room})
endforeach()
set_target_properties(attn_client_library PROPERTIES EXPORT_NAME client)

install(TARGETS ${targets} EXPORT attnTargets
  ARCHIVE COMPONENT client
  INCLUDES DESTINATION ${headers}
  FILE_SET HEADERS DESTINATION ${headers} COMPONENT client
  FILE_SET unproven DESTINATION ${headers} COMPONENT client)
get_target_property(generated attn_proto BINARY_DIR)
install(DIRECTORY ${generated}/generated/ DESTINATION ${headers} COMPONENT client
  FILES_MATCHING PATTERN "attention/v1/*.pb.h")
install(EXPORT attnTargets NAMESPACE attn:: DESTINATION ${package}
  COMPONENT client)

configure_package_config_file(attnConfig.cmake.in attnConfig.cmake
  INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break what was built with the one before.
write_basic_package_version_file(attnConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/attnConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/attnConfigVersion.cmake
  DESTINATION ${package} COMPONENT client)

# Found from where the file lies, so that the prefix may be chosen, or the tree
# moved, later.
file(RELATIVE_PATH ATTN_PREFIX_FROM_PC
  /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" ATTN_PREFIX_FROM_PC ${ATTN_PREFIX_FROM_PC})
configure_file(attn.pc.in attn.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/attn.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT client)
