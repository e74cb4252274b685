#include "textflag.h"

// ROWBITS loads the bits from those of eight rows on in Z3, of values whose width is in Z16.
#define ROWBITS \
	VPMOVZXDQ  (SI), Z0;           \
	VPMULUDQ   Z16, Z0, Z1;        \
	VPSRLQ     $3, Z1, Z2;         \
	VPANDQ     Z17, Z1, Z1;        \
	KXNORB     K1, K1, K1;         \
	VPGATHERQQ (DX)(Z2*1), K1, Z3; \
	VPSRLVQ    Z1, Z3, Z3

#define ROWSNEXT(label) \
	VMOVDQU64 Z3, (DI); \
	ADDQ      $32, SI;  \
	ADDQ      $64, DI;  \
	DECQ      CX;       \
	JNZ       label;    \
	CMPQ      BX, $0;   \
	JEQ       rowsEnd;  \
	LEAQ      -32(SI)(BX*4), SI; \
	LEAQ      -64(DI)(BX*8), DI; \
	MOVQ      $1, CX;   \
	XORL      BX, BX;   \
	JMP       label

// func gatherRows(sel *uint32, n int, body unsafe.Pointer, r *rowDecoding, out unsafe.Pointer)
TEXT ·gatherRows(SB), NOSPLIT, $0-40
	MOVQ         sel+0(FP), SI
	MOVQ         n+8(FP), CX
	MOVQ         body+16(FP), DX
	MOVQ         r+24(FP), AX
	MOVQ         out+32(FP), DI
	MOVQ         CX, BX
	ANDQ         $7, BX            // rows of the last eight that are not in the others
	SHRQ         $3, CX
	VPBROADCASTQ 0(AX), Z16        // width
	MOVQ         $7, R8
	VPBROADCASTQ R8, Z17
	VPBROADCASTQ 8(AX), Z18        // base
	VPBROADCASTQ 16(AX), Z19       // gcd
	VPBROADCASTQ 24(AX), Z20       // mask of a value, or of what is below a tick
	VPBROADCASTQ 40(AX), Z21       // period
	VMOVQ        48(AX), X22       // bits below a tick
	VPBROADCASTQ 32(AX), Z23       // mask of a value
	VPBROADCASTQ 56(AX), Z24       // inverse
	VPBROADCASTQ 64(AX), Z25       // and what it lacks
	CMPQ         56(AX), $0
	JNE          rowsDecimal
	CMPQ         40(AX), $0
	JNE          rowsClock

rowsFOR:
	ROWBITS
	VPANDQ  Z20, Z3, Z3
	VPMULLQ Z19, Z3, Z3
	VPADDQ  Z18, Z3, Z3
	ROWSNEXT(rowsFOR)

rowsClock:
	ROWBITS
	VPANDQ  Z23, Z3, Z3
	VPSRLQ  X22, Z3, Z4
	VPANDQ  Z20, Z3, Z3
	VPMULLQ Z21, Z4, Z4
	VPMULLQ Z19, Z3, Z3
	VPADDQ  Z18, Z4, Z4
	VPADDQ  Z4, Z3, Z3
	ROWSNEXT(rowsClock)

rowsDecimal:
	ROWBITS
	VPANDQ      Z20, Z3, Z3
	VPMULLQ     Z19, Z3, Z3
	VPADDQ      Z18, Z3, Z3
	VCVTQQ2PD   Z3, Z3
	VMULPD      Z25, Z3, Z4
	VFMADD132PD Z24, Z4, Z3
	ROWSNEXT(rowsDecimal)

rowsEnd:
	VZEROUPPER
	RET
