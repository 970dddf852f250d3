# SPDX-License-Identifier: Apache-2.0
# Script: writes the text files FILES to OUTPUT as initialisers {"name", "text"}, one a file. Names
# are relative to the folder BASE where that is given, and without a folder otherwise.
set(rows "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  if(BASE)
    file(RELATIVE_PATH name "${BASE}" "${file}")
  endif()
  file(READ "${file}" text)
  string(APPEND rows "{\"${name}\", R\"__coda__(${text})__coda__\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "${rows}")
