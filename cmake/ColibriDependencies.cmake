# Where the libraries come from: a target that a parent project already has, else an installed package, else a pinned
# download. All of the library's own dependencies are header-only; of the rest only Google Benchmark is built.
include(FetchContent)
find_package(Threads REQUIRED)

# Declares the imported header-only target TARGET from a download, pinned by commit. A later SOURCE_SUBDIR that doesn't
# exist makes FetchContent only bring the sources, not add their build.
function(colibri_fetch_headers target name repository commit include_dir)
    message(STATUS "${name}: not installed, so it is downloaded from ${repository}")
    FetchContent_Declare(${name} GIT_REPOSITORY ${repository} GIT_TAG ${commit} GIT_SUBMODULES "" SOURCE_SUBDIR no-build)
    FetchContent_MakeAvailable(${name})
    string(TOLOWER ${name} lower)
    if(NOT TARGET ${target})
        add_library(${target} INTERFACE IMPORTED GLOBAL)
        target_include_directories(${target} INTERFACE ${${lower}_SOURCE_DIR}/${include_dir})
    endif()
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/ColibriHighway.cmake)
if(NOT TARGET colibri::highway)
    colibri_fetch_headers(colibri::highway highway https://github.com/google/highway.git
        457c891775a7397bdb0376bb1031e6e027af1c48 .)  # 1.2.0
endif()

if(NOT TARGET range-v3::range-v3)
    find_package(range-v3 QUIET)
endif()
if(NOT TARGET range-v3::range-v3)
    colibri_fetch_headers(range-v3::range-v3 range-v3 https://github.com/ericniebler/range-v3.git
        a81477931a8aa2ad025c6bda0609f38e09e4d7ec include)  # 0.12.0
endif()

if(NOT TARGET Eigen3::Eigen)
    find_package(Eigen3 QUIET NO_MODULE)
endif()
if(NOT TARGET Eigen3::Eigen)
    colibri_fetch_headers(Eigen3::Eigen eigen https://github.com/eigen-mirror/eigen.git
        3147391d946bb4b6c68edd901f2add6ac1f31f8c .)  # 3.4.0
endif()

# Only programs and tests use these.
if(COLIBRI_BUILD_APPS OR COLIBRI_BUILD_TESTS)
    if(NOT TARGET nlohmann_json::nlohmann_json)
        find_package(nlohmann_json 3.11 QUIET)
    endif()
    if(NOT TARGET nlohmann_json::nlohmann_json)
        colibri_fetch_headers(nlohmann_json::nlohmann_json nlohmann_json https://github.com/nlohmann/json.git
            bc889afb4c5bf1c0d8ee29ef35eaaf4c8bef8a5d single_include)  # 3.11.2
    endif()
endif()
if(COLIBRI_BUILD_APPS)
    if(NOT TARGET CLI11::CLI11)
        find_package(CLI11 2.1 QUIET)
    endif()
    if(NOT TARGET CLI11::CLI11)
        colibri_fetch_headers(CLI11::CLI11 CLI11 https://github.com/CLIUtils/CLI11.git
            70f8072f9dd2292fd0b9f9e5f58e279f60483ed3 include)  # 2.1.2
    endif()
endif()
if(COLIBRI_BUILD_TESTS)
    if(NOT TARGET doctest::doctest)
        find_package(doctest 2.4 QUIET)
    endif()
    if(NOT TARGET doctest::doctest)
        colibri_fetch_headers(doctest::doctest doctest https://github.com/doctest/doctest.git
            b7c21ec5ceeadb4951b00396fc1e4642dd347e5f .)  # 2.4.9
    endif()
endif()
if(COLIBRI_BUILD_BENCH)
    if(NOT TARGET benchmark::benchmark)
        find_package(benchmark 1.7 QUIET)
    endif()
    if(NOT TARGET benchmark::benchmark)
        message(STATUS "benchmark: not installed, so it is downloaded from https://github.com/google/benchmark.git")
        set(BENCHMARK_ENABLE_TESTING OFF)
        set(BENCHMARK_ENABLE_INSTALL OFF)
        FetchContent_Declare(benchmark GIT_REPOSITORY https://github.com/google/benchmark.git
            GIT_TAG d572f4777349d43653b21d6c2fc63020ab326db2)  # 1.7.1
        FetchContent_MakeAvailable(benchmark)
    endif()
endif()
