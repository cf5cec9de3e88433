# hs_embed_assets(TARGET ROOT): a static library with every file below ROOT, compressed, and the table web_assets() of
# src/http/static_files.h. GCC 12 has no #embed, so the bytes come in through the assembler.

enable_language(ASM)

function(hs_embed_assets target root)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${root}/*)
  list(FILTER files EXCLUDE REGEX "/\\.[^/]*$|\\.md$")
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${target})
  add_custom_command(
    OUTPUT ${out}/assets.S ${out}/assets.cpp
    COMMAND ${CMAKE_COMMAND} -DROOT=${root} -DOUT=${out} "-DFILES=${files}" -P ${CMAKE_SOURCE_DIR}/cmake/EmbedAssetsScript.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/EmbedAssetsScript.cmake
    COMMENT "Compressing web assets"
    VERBATIM)
  add_library(${target} STATIC ${out}/assets.S ${out}/assets.cpp)
  target_link_libraries(${target} PUBLIC hs_http)
endfunction()
