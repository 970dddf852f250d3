# SPDX-License-Identifier: Apache-2.0
# Finds oneDNN and defines coda::onednn, unless CODA_ONEDNN is OFF; oneDNN runs its threads through OpenMP.
# It looks for the header and the library instead of reading oneDNN's own package file, because Debian's
# one ends the configuration where OpenCL's headers are absent, which no user of the CPU library needs.
set(CODA_ONEDNN AUTO CACHE STRING "oneDNN as the CPU mainloop: AUTO, ON or OFF")
set_property(CACHE CODA_ONEDNN PROPERTY STRINGS AUTO ON OFF)
if(CODA_ONEDNN STREQUAL "OFF")
  return()
endif()

find_path(ONEDNN_INCLUDE_DIR dnnl.hpp)
find_library(ONEDNN_LIBRARY dnnl)
mark_as_advanced(ONEDNN_INCLUDE_DIR ONEDNN_LIBRARY)
find_package(OpenMP QUIET GLOBAL COMPONENTS CXX)
if(ONEDNN_INCLUDE_DIR AND ONEDNN_LIBRARY AND OpenMP_CXX_FOUND)
  add_library(coda::onednn UNKNOWN IMPORTED GLOBAL)
  set_target_properties(coda::onednn PROPERTIES
    IMPORTED_LOCATION "${ONEDNN_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${ONEDNN_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${OpenMP_CXX_LIBRARIES}")
elseif(CODA_ONEDNN STREQUAL "ON")
  message(FATAL_ERROR "CODA_ONEDNN=ON needs oneDNN (libdnnl-dev) and OpenMP; or set CODA_ONEDNN=OFF")
endif()
