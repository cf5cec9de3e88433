# Run by hs_embed_assets(): compresses FILES (below ROOT) into OUT, and writes OUT/assets.S and OUT/assets.cpp.
cmake_minimum_required(VERSION 3.25)

set(types "html=text/html; charset=utf-8|js=text/javascript; charset=utf-8|css=text/css; charset=utf-8|svg=image/svg+xml")
string(APPEND types "|json=application/json|png=image/png|jpg=image/jpeg|webp=image/webp|txt=text/plain; charset=utf-8")
string(REPLACE "|" "\n" types "${types}")

set(assembly "// Written by cmake/EmbedAssetsScript.cmake.\n.section .rodata\n")
set(declarations "")
set(rows "")
set(index 0)
file(MAKE_DIRECTORY ${OUT})
list(SORT FILES)
foreach(file IN LISTS FILES)
  file(RELATIVE_PATH path ${ROOT} ${file})
  get_filename_component(extension ${file} LAST_EXT)
  string(SUBSTRING "${extension}" 1 -1 extension)
  if(NOT "\n${types}\n" MATCHES "\n${extension}=([^\n]*)\n")
    message(FATAL_ERROR "web asset ${path}: no content type is known for .${extension} (cmake/EmbedAssetsScript.cmake)")
  endif()
  set(type "${CMAKE_MATCH_1}")
  # -n leaves name and time out, so that equal files give equal bytes.
  set(packed ${OUT}/asset${index}.gz)
  execute_process(COMMAND gzip -9nc ${file} OUTPUT_FILE ${packed} COMMAND_ERROR_IS_FATAL ANY)
  file(SHA256 ${file} hash)
  string(SUBSTRING ${hash} 0 16 etag)
  string(APPEND assembly
    ".global hs_asset${index}\n.global hs_asset${index}_end\n.balign 16\nhs_asset${index}:\n"
    ".incbin \"${packed}\"\nhs_asset${index}_end:\n")
  string(APPEND declarations "extern const char hs_asset${index}[];\nextern const char hs_asset${index}_end[];\n")
  string(APPEND rows "      {\"/${path}\", \"${type}\", bytes(hs_asset${index}, hs_asset${index}_end), \"\\\"${etag}\\\"\"},\n")
  math(EXPR index "${index} + 1")
endforeach()
string(APPEND assembly ".section .note.GNU-stack,\"\",@progbits\n")

file(WRITE ${OUT}/assets.S "${assembly}")
file(WRITE ${OUT}/assets.cpp "// Written by cmake/EmbedAssetsScript.cmake.
#include \"http/static_files.h\"

extern \"C\" {
${declarations}}

namespace hs {
namespace {

std::string_view bytes(const char* begin, const char* end) { return {begin, end}; }

}  // namespace

std::span<const StaticFile> web_assets() {
  static const StaticFile table[] = {
${rows}  };
  return table;
}

}  // namespace hs
")
