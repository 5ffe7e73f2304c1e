#pragma once

/// The version of these headers. The build reads it from here, so that headers, library and package cannot disagree.
#define UNISONO_VERSION_MAJOR 0
#define UNISONO_VERSION_MINOR 1
#define UNISONO_VERSION_PATCH 0
