# The files of the HTML page as string constants, so that the installed tool is one file and needs
# no program beside CMake to be built.
#
# usage: cmake -DFOLDER=DIR -DSCRIPTS=a.js,b.js -DOUT=FILE -P embed.cmake
# Writes OUT, which defines what frontend/report/page_parts.hpp declares. Every constant is one
# file: clang takes no literal above 64 KiB.
cmake_minimum_required(VERSION 3.25)

function(literal file result)
  file(READ ${FOLDER}/${file} text)
  string(FIND "${text}" ")braid_page\"" end)
  string(LENGTH "${text}" length)
  if(NOT end EQUAL -1 OR length GREATER 60000)
    message(FATAL_ERROR "${FOLDER}/${file} holds what ends its literal, or more than 60,000 bytes")
  endif()
  set(${result} "R\"braid_page(${text})braid_page\"" PARENT_SCOPE)
endfunction()

literal(page.html html)
literal(page.css style)
string(REPLACE "," ";" scripts "${SCRIPTS}")
list(LENGTH scripts count)
set(out "// Made by cmake/embed.cmake.\n#include \"frontend/report/page_parts.hpp\"\n\n")
string(APPEND out "namespace braid::page_parts {\n\n")
string(APPEND out "const std::string_view kHtml = ${html};\n\n")
string(APPEND out "const std::string_view kStyle = ${style};\n\n")
string(APPEND out "const std::array<std::string_view, ${count}> kScripts{\n")
foreach(script IN LISTS scripts)
  literal(${script} text)
  string(APPEND out "    ${text},\n")
endforeach()
string(APPEND out "};\n\n}  // namespace braid::page_parts\n")
file(WRITE ${OUT} "${out}")
