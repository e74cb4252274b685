#include "textflag.h"

DATA rowsOfEight<>+0(SB)/8, $0
DATA rowsOfEight<>+8(SB)/8, $1
DATA rowsOfEight<>+16(SB)/8, $2
DATA rowsOfEight<>+24(SB)/8, $3
DATA rowsOfEight<>+32(SB)/8, $4
DATA rowsOfEight<>+40(SB)/8, $5
DATA rowsOfEight<>+48(SB)/8, $6
DATA rowsOfEight<>+56(SB)/8, $7
GLOBL rowsOfEight<>(SB), RODATA|NOPTR, $64

// func decodeLines(values unsafe.Pointer, row, n int, lines *byte, d *lineDecoding)
TEXT ·decodeLines(SB), NOSPLIT, $0-40
	MOVQ         values+0(FP), DI
	MOVQ         row+8(FP), SI
	MOVQ         n+16(FP), DX
	MOVQ         lines+24(FP), R8
	MOVQ         d+32(FP), AX
	VPBROADCASTQ 0(AX), Z5      // base
	VPBROADCASTQ 8(AX), Z6      // gcd
	VPBROADCASTQ 16(AX), Z7     // mask
	VMOVDQU64    rowsOfEight<>(SB), Z8

lineNext:
	MOVQ         SI, BX
	SHRQ         $7, BX
	MOVWLZX      0(R8)(BX*4), R9  // first
	MOVWLZX      2(R8)(BX*4), R10 // ascent
	MOVQ         SI, R11
	ANDQ         $127, R11
	MOVQ         $128, CX
	SUBQ         R11, CX          // rows that are left of the line
	CMPQ         CX, DX
	CMOVQGT      DX, CX
	ADDQ         CX, SI
	SUBQ         CX, DX
	IMULQ        R10, R11
	VPBROADCASTQ R11, Z0
	VPBROADCASTQ R10, Z1
	VPMULUDQ     Z8, Z1, Z2
	VPADDQ       Z2, Z0, Z0       // ascent * row of the line
	VPSLLQ       $3, Z1, Z1
	VPBROADCASTQ R9, Z2
	SUBQ         $8, CX
	JLT          lineRest

lineEight:
	VPSRLQ    $7, Z0, Z3
	VPADDQ    (DI), Z2, Z4
	VPADDQ    Z3, Z4, Z4
	VPANDQ    Z7, Z4, Z4
	VPMULLQ   Z6, Z4, Z4
	VPADDQ    Z5, Z4, Z4
	VMOVDQU64 Z4, (DI)
	VPADDQ    Z1, Z0, Z0
	ADDQ      $64, DI
	SUBQ      $8, CX
	JGE       lineEight

lineRest:
	ADDQ        $8, CX
	JZ          lineEnd
	MOVL        $1, AX
	SHLL        CX, AX
	DECL        AX
	KMOVB       AX, K1
	VPSRLQ      $7, Z0, Z3
	VMOVDQU64.Z (DI), K1, Z4
	VPADDQ      Z2, Z4, Z4
	VPADDQ      Z3, Z4, Z4
	VPANDQ      Z7, Z4, Z4
	VPMULLQ     Z6, Z4, Z4
	VPADDQ      Z5, Z4, Z4
	VMOVDQU64   Z4, K1, (DI)
	LEAQ        (DI)(CX*8), DI

lineEnd:
	TESTQ DX, DX
	JNZ   lineNext
	VZEROUPPER
	RET
