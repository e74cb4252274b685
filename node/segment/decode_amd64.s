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

// QUOTIENT divides integers by the power of ten: times its inverse, in two parts.
#define QUOTIENT(values, with) \
	VSUBPD      Y8, values, values; \
	VMULPD      Y10, values, with; \
	VFMADD132PD Y9, with, values

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
	VPBROADCASTQ 40(DX), Y10        // and what it lacks
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

// UNPACKDENSE makes eight values of the 64 bytes from SI on, in Z11, with what lies above them.
#define UNPACKDENSE \
	VPERMB     (SI), Z0, Z11; \
	ADDQ       R8, SI; \
	PREFETCHT0 (R14); \
	ADDQ       R15, R14; \
	VPSRLVQ    Z1, Z11, Z11

#define MASKDENSE \
	VPANDQ Z2, Z11, Z11

// FLOATDENSE sets the bits of 2^52 instead, so that values are that float more.
#define FLOATDENSE \
	VPTERNLOGQ $0xea, Z3, Z2, Z11

#define QUOTIENTDENSE \
	VMULPD      Z7, Z11, Z12; \
	VFMADD132PD Z6, Z12, Z11

#define NEXTDENSE(label) \
	VMOVDQU64 Z11, (DI); \
	ADDQ      $64, DI; \
	DECQ      CX; \
	JNZ       label; \
	JMP       stepDense

// func decodeDense(body *byte, lo, n int, u *[8]denseUnpacking, d *decoding, out unsafe.Pointer,
//	load *byte, step int)
TEXT ·decodeDense(SB), NOSPLIT, $0-64
	MOVQ         body+0(FP), R12
	MOVQ         lo+8(FP), R10      // the next row
	MOVQ         n+16(FP), R11      // how many there are
	MOVQ         u+24(FP), BX
	MOVQ         d+32(FP), AX
	MOVQ         out+40(FP), DX     // where the next row goes
	MOVQ         load+48(FP), R14   // what is loaded meanwhile
	MOVQ         step+56(FP), R15   // with eight rows
	VPBROADCASTQ 128(BX), Z2        // bits of a value
	MOVQ         136(BX), R8        // bytes of eight
	VPBROADCASTQ 0(AX), Z3          // base
	VPBROADCASTQ 8(AX), Z4          // gcd
	XORL         R13, R13           // 1 with a gcd, 2 more for decimals
	CMPQ         8(AX), $1
	SETNE        R13
	CMPQ         32(AX), $0
	JEQ          align
	ADDQ         $2, R13
	VPBROADCASTQ 48(AX), Z3         // 2^52
	VPBROADCASTQ 56(AX), Z5         // that less base
	VPBROADCASTQ 64(AX), Z4         // base and gcd as floats
	VPBROADCASTQ 72(AX), Z8
	VPBROADCASTQ 32(AX), Z6         // inverse
	VPBROADCASTQ 40(AX), Z7         // and what it lacks

// A store across two cache lines takes twice as long. So eight rows are written for the sake of
// those up to the next line.
align:
	MOVQ  DX, R9
	NEGQ  R9
	ANDQ  $63, R9
	JZ    nextDense
	CMPQ  R11, $64
	JLT   nextDense
	SHRQ  $3, R9
	MOVQ  $1, CX
	JMP   beginDense

stepDense:
	ADDQ R9, R10
	LEAQ (DX)(R9*8), DX
	SUBQ R9, R11
	JZ   endDense

nextDense:
	MOVQ R11, CX
	SHRQ $3, CX
	JZ   lastDense
	LEAQ (CX*8), R9
	JMP  beginDense

// What is left comes once more with some of those before.
lastDense:
	MOVQ $8, R9
	SUBQ R9, R11
	ADDQ R11, R10
	LEAQ (DX)(R11*8), DX
	MOVQ R9, R11
	MOVQ $1, CX

beginDense:
	MOVQ      DX, DI
	MOVQ      R10, SI
	IMULQ     R8, SI
	SHRQ      $3, SI
	ADDQ      R12, SI
	MOVQ      R10, AX
	ANDQ      $7, AX
	IMULQ     $144, AX
	VMOVDQU64 (BX)(AX*1), Z0        // bytes of each value
	VMOVDQU64 64(BX)(AX*1), Z1      // bits that lie before it
	CMPQ      R13, $2
	JEQ       denseDecimals
	JHI       denseDecimalsGCD
	CMPQ      R13, $1
	JEQ       denseGCD

denseOne:
	UNPACKDENSE
	MASKDENSE
	VPADDQ Z3, Z11, Z11
	NEXTDENSE(denseOne)

denseGCD:
	UNPACKDENSE
	MASKDENSE
	VPMULLQ Z4, Z11, Z11
	VPADDQ  Z3, Z11, Z11
	NEXTDENSE(denseGCD)

denseDecimals:
	UNPACKDENSE
	FLOATDENSE
	VSUBPD Z5, Z11, Z11
	QUOTIENTDENSE
	NEXTDENSE(denseDecimals)

denseDecimalsGCD:
	UNPACKDENSE
	FLOATDENSE
	VSUBPD      Z3, Z11, Z11
	VFMADD132PD Z8, Z4, Z11
	QUOTIENTDENSE
	NEXTDENSE(denseDecimalsGCD)

endDense:
	VZEROUPPER
	RET
