# COLIBRI_SINGLE: a folder in which each header that the single header holds is a forward to it, searched before include/.
# Headers outside it (those that need JSON) are found in include/, and what they include is forwarded too.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
execute_process(
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/amalgamate.py
        --forwards ${PROJECT_BINARY_DIR}/single
    COMMAND_ERROR_IS_FATAL ANY
)
target_include_directories(colibri_flags BEFORE INTERFACE ${PROJECT_BINARY_DIR}/single)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/colibri/colibri.hpp)
