#include "textflag.h"

// UNPACK makes eight values of the bytes from SI on, in Y11 and Y12.
#define UNPACK \
	VMOVDQU     (SI), X11; \
	VINSERTI128 $1, (SI)(R9*1), Y11, Y11; \
	VMOVDQU     (SI)(R12*1), X12; \
	VINSERTI128 $1, (SI)(R13*1), Y12, Y12; \
	ADDQ        R8, SI; \
	VPSHUFB     Y0, Y11, Y11; \
	VPSHUFB     Y1, Y12, Y12; \
	VPSRLVQ     Y2, Y11, Y11; \
	VPSRLVQ     Y3, Y12, Y12; \
	VPAND       Y4, Y11, Y11; \
	VPAND       Y4, Y12, Y12

// TIMES multiplies values by the gcd, modulo 2^64: there is an instruction for halves only.
#define TIMES(values) \
	VPSRLQ   $32, values, Y13; \
	VPMULUDQ Y6, Y13, Y13; \
	VPMULUDQ Y7, values, Y14; \
	VPADDQ   Y14, Y13, Y13; \
	VPSLLQ   $32, Y13, Y13; \
	VPMULUDQ Y6, values, values; \
	VPADDQ   Y13, values, values

#define GCD \
	TIMES(Y11); \
	TIMES(Y12)

#define BASE \
	VPADDQ Y5, Y11, Y11; \
	VPADDQ Y5, Y12, Y12

// QUOTIENT divides integers by the power of ten: times its inverse, and the remainder of that
// times its inverse once more.
#define QUOTIENT(values, with) \
	VSUBPD       Y8, values, with; \
	VMULPD       Y9, with, values; \
	VFNMADD231PD Y10, values, with; \
	VFMADD231PD  Y9, with, values

#define DECIMALS \
	QUOTIENT(Y11, Y13); \
	QUOTIENT(Y12, Y14)

#define DENSE \
	VMOVDQU Y11, (DI); \
	VMOVDQU Y12, 32(DI); \
	ADDQ    $64, DI

#define SPREAD(values, low) \
	VMOVQ        low, (DI); \
	VMOVHPD      low, (DI)(R10*1); \
	VEXTRACTF128 $1, values, low; \
	VMOVQ        low, (DI)(R10*2); \
	VMOVHPD      low, (DI)(R11*1); \
	LEAQ         (DI)(R10*4), DI

#define SPARSE \
	SPREAD(Y11, X11); \
	SPREAD(Y12, X12)

#define NEXT(label) \
	DECQ CX; \
	JNZ  label; \
	VZEROUPPER; \
	RET

// func decodeEights(from *byte, eights int, u *wideUnpacking, d *decoding, out unsafe.Pointer,
//	stride int)
TEXT ·decodeEights(SB), NOSPLIT, $0-48
	MOVQ         from+0(FP), SI
	MOVQ         eights+8(FP), CX
	MOVQ         u+16(FP), BX
	MOVQ         d+24(FP), DX
	MOVQ         out+32(FP), DI
	MOVQ         stride+40(FP), R10
	LEAQ         (R10)(R10*2), R11
	VMOVDQU      0(BX), Y0          // bytes of the first four values
	VMOVDQU      32(BX), Y1         // and of the others
	VMOVDQU      64(BX), Y2         // bits that lie before them
	VMOVDQU      96(BX), Y3
	VPBROADCASTQ 128(BX), Y4        // their bits
	MOVQ         136(BX), R8        // bytes of eight values
	MOVQ         144(BX), R9        // where the second, third and fourth pair start
	MOVQ         152(BX), R12
	MOVQ         160(BX), R13
	VPBROADCASTQ 0(DX), Y5          // base
	VPBROADCASTQ 8(DX), Y6          // gcd
	VPBROADCASTQ 16(DX), Y7         // and its upper half
	VPBROADCASTQ 24(DX), Y8         // the float64 that was added to base
	VPBROADCASTQ 32(DX), Y9         // inverse
	VPBROADCASTQ 40(DX), Y10        // power
	MOVQ         8(DX), AX
	MOVQ         32(DX), BX
	CMPQ         R10, $8
	JNE          sparse
	TESTQ        BX, BX
	JNE          decimals
	CMPQ         AX, $1
	JNE          numbersGCD

numbers:
	UNPACK
	BASE
	DENSE
	NEXT(numbers)

numbersGCD:
	UNPACK
	GCD
	BASE
	DENSE
	NEXT(numbersGCD)

decimals:
	CMPQ AX, $1
	JNE  decimalsGCD

decimalsOne:
	UNPACK
	BASE
	DECIMALS
	DENSE
	NEXT(decimalsOne)

decimalsGCD:
	UNPACK
	GCD
	BASE
	DECIMALS
	DENSE
	NEXT(decimalsGCD)

sparse:
	TESTQ BX, BX
	JNE   sparseDecimals
	CMPQ  AX, $1
	JNE   sparseGCD

sparseOne:
	UNPACK
	BASE
	SPARSE
	NEXT(sparseOne)

sparseGCD:
	UNPACK
	GCD
	BASE
	SPARSE
	NEXT(sparseGCD)

sparseDecimals:
	CMPQ AX, $1
	JNE  sparseDecimalsGCD

sparseDecimalsOne:
	UNPACK
	BASE
	DECIMALS
	SPARSE
	NEXT(sparseDecimalsOne)

sparseDecimalsGCD:
	UNPACK
	GCD
	BASE
	DECIMALS
	SPARSE
	NEXT(sparseDecimalsGCD)

// UNPACKDENSE makes eight values of the 64 bytes from SI on, in Z11.
#define UNPACKDENSE \
	VPERMB  (SI), Z0, Z11; \
	ADDQ    R8, SI; \
	VPSRLVQ Z1, Z11, Z11; \
	VPANDQ  Z2, Z11, Z11

#define BASEDENSE \
	VPADDQ Z3, Z11, Z11

#define GCDDENSE \
	VPMULLQ Z4, Z11, Z11

#define QUOTIENTDENSE \
	VSUBPD       Z5, Z11, Z12; \
	VMULPD       Z6, Z12, Z11; \
	VFNMADD231PD Z7, Z11, Z12; \
	VFMADD231PD  Z6, Z12, Z11

#define NEXTDENSE(label) \
	VMOVDQU64 Z11, (DI); \
	ADDQ      $64, DI; \
	DECQ      CX; \
	JNZ       label; \
	VZEROUPPER; \
	RET

// func decodeDense(from *byte, eights int, u *denseUnpacking, d *decoding, out unsafe.Pointer)
TEXT ·decodeDense(SB), NOSPLIT, $0-40
	MOVQ         from+0(FP), SI
	MOVQ         eights+8(FP), CX
	MOVQ         u+16(FP), BX
	MOVQ         d+24(FP), DX
	MOVQ         out+32(FP), DI
	VMOVDQU64    0(BX), Z0          // bytes of each value
	VMOVDQU64    64(BX), Z1         // bits that lie before it
	VPBROADCASTQ 128(BX), Z2        // its bits
	MOVQ         136(BX), R8        // bytes of eight values
	VPBROADCASTQ 0(DX), Z3          // base
	VPBROADCASTQ 8(DX), Z4          // gcd
	VPBROADCASTQ 24(DX), Z5         // the float64 that was added to base
	VPBROADCASTQ 32(DX), Z6         // inverse
	VPBROADCASTQ 40(DX), Z7         // power
	MOVQ         8(DX), AX
	MOVQ         32(DX), BX
	TESTQ        BX, BX
	JNE          denseDecimals
	CMPQ         AX, $1
	JNE          denseGCD

denseOne:
	UNPACKDENSE
	BASEDENSE
	NEXTDENSE(denseOne)

denseGCD:
	UNPACKDENSE
	GCDDENSE
	BASEDENSE
	NEXTDENSE(denseGCD)

denseDecimals:
	CMPQ AX, $1
	JNE  denseDecimalsGCD

denseDecimalsOne:
	UNPACKDENSE
	BASEDENSE
	QUOTIENTDENSE
	NEXTDENSE(denseDecimalsOne)

denseDecimalsGCD:
	UNPACKDENSE
	GCDDENSE
	BASEDENSE
	QUOTIENTDENSE
	NEXTDENSE(denseDecimalsGCD)
