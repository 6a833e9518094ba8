# The library, the flags of our own programs and tests, and the kernels compiled once.
include(GNUInstallDirs)

add_library(colibri INTERFACE)
add_library(colibri::colibri ALIAS colibri)
target_compile_features(colibri INTERFACE cxx_std_20)
target_include_directories(colibri INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
)
target_compile_definitions(colibri INTERFACE
    $<$<NOT:$<BOOL:${COLI_AVX2}>>:COLIBRI_NO_AVX2> $<$<NOT:$<BOOL:${COLI_AVX512}>>:COLIBRI_NO_AVX512>
)
target_link_libraries(colibri INTERFACE colibri::highway range-v3::range-v3 Eigen3::Eigen Threads::Threads)

# Flags of our own code. Consumers keep theirs: nothing here is exported.
add_library(colibri_flags INTERFACE)
target_compile_options(colibri_flags INTERFACE
    -Wall -Wextra -Wshadow -Wconversion
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # false alarms of g++ 12 in std::string (GCC bug 105651)
    -ffp-contract=off  # a*b+c rounds twice unless the code asks for a fused one: docs/numerics.md
    $<$<BOOL:${COLI_NATIVE}>:-march=native>
)
if(COLIBRI_SANITIZE)
    target_compile_options(colibri_flags INTERFACE
        -fsanitize=${COLIBRI_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(colibri_flags INTERFACE -fsanitize=${COLIBRI_SANITIZE})
endif()

# COLIBRI_SINGLE: every "colibri/x/y.hpp" that the single header holds becomes a forward to it.
if(COLIBRI_SINGLE)
    include(ColibriSingle)
endif()

# The dispatch pass costs seconds of compile time: our programs and tests declare only and share one object.
if(EXISTS ${PROJECT_SOURCE_DIR}/include/colibri/simd/kernels.hpp)
    add_library(colibri_kernels OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/apps/support/kernels.cpp)
    add_library(colibri::kernels ALIAS colibri_kernels)
    target_compile_definitions(colibri_kernels PUBLIC COLIBRI_EXTERN_KERNELS PRIVATE COLIBRI_IMPLEMENT_KERNELS)
    target_link_libraries(colibri_kernels PUBLIC colibri PRIVATE colibri_flags)
endif()

# Makes TARGET one of ours: our flags, the library, the shared kernels. An object library of ours passes them on (PUBLIC), but
# objects don't reach programs through other object libraries, so each program links the kernels itself.
function(colibri_own target)
    set(scope ${ARGN} PRIVATE)
    list(GET scope 0 scope)
    target_link_libraries(${target} ${scope} colibri_flags colibri)
    if(TARGET colibri_kernels)
        target_link_libraries(${target} ${scope} colibri_kernels)
    endif()
endfunction()
