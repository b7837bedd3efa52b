// The part of cuda.h that describes arrays for the copy engine: a map is made as the simulator reads it.
#pragma once
struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; };
typedef struct CUtensorMap_st CUtensorMap;
typedef unsigned int cuuint32_t;
typedef unsigned long long cuuint64_t;
typedef enum cudaError_enum { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED = 801 } CUresult;
typedef enum CUtensorMapDataType_enum {
  CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_DATA_TYPE_UINT16, CU_TENSOR_MAP_DATA_TYPE_UINT32,
  CU_TENSOR_MAP_DATA_TYPE_INT32, CU_TENSOR_MAP_DATA_TYPE_UINT64, CU_TENSOR_MAP_DATA_TYPE_INT64,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ, CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B,
  CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B
} CUtensorMapDataType;
typedef enum CUtensorMapInterleave_enum {
  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_INTERLEAVE_16B, CU_TENSOR_MAP_INTERLEAVE_32B
} CUtensorMapInterleave;
typedef enum CUtensorMapSwizzle_enum {
  CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_128B,
  CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B
} CUtensorMapSwizzle;
typedef enum CUtensorMapL2promotion_enum {
  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_64B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
  CU_TENSOR_MAP_L2_PROMOTION_L2_256B
} CUtensorMapL2promotion;
typedef enum CUtensorMapFloatOOBfill_enum {
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
} CUtensorMapFloatOOBfill;

// What an instruction calls the types: 7 for every kind of float, whose bits are moved as they are.
template <class T = void>
__host__ __device__ inline CUresult cuTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* extents,
    const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  if (rank < 1 || rank > 5 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return CUDA_ERROR_INVALID_VALUE;
  if (swizzle > CU_TENSOR_MAP_SWIZZLE_128B) return CUDA_ERROR_NOT_SUPPORTED;
  unsigned word[32] = {};
  unsigned kind = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT64 ? 9 : type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ? 10
                : type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ ? 7 : type;
  word[0] = (unsigned)(unsigned long long)address;
  word[1] = (unsigned)((unsigned long long)address >> 32);
  word[2] = (rank - 1) << 4 | kind << 7 | (unsigned)swizzle << 13 | (unsigned)fill << 15;
  for (unsigned i = 0; i + 1 < rank; ++i) {
    word[3 + i] = (unsigned)(strides[i] >> 4);
    word[7] |= (unsigned)(strides[i] >> 36) << 4 * i;
    word[14] |= (box[i + 1] - 1) << 8 * i;
  }
  word[13] = (box[0] - 1) << 24;
  for (unsigned i = 0; i < rank; ++i) {
    word[8 + i] = (unsigned)(extents[i] - 1);
    word[13] |= (steps[i] - 1) << 3 * i;
  }
  for (int i = 0; i < 16; ++i) map->opaque[i] = word[2 * i] | (unsigned long long)word[2 * i + 1] << 32;
  return CUDA_SUCCESS;
}
