# SPDX-License-Identifier: Apache-2.0
# Script: writes the text files FILES to OUTPUT as initialisers {"name", "text"}, one a file.
set(rows "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" text)
  string(APPEND rows "{\"${name}\", R\"__coda__(${text})__coda__\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "${rows}")
