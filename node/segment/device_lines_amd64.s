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
	MOVL         $0xffff, AX
	VPBROADCASTQ AX, Z7         // of a packed value
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

// func decodeLineRows(values unsafe.Pointer, rows *uint32, eights int, lines, rests *byte, d *lineDecoding)
TEXT ·decodeLineRows(SB), NOSPLIT, $0-48
	MOVQ         values+0(FP), DI
	MOVQ         rows+8(FP), SI
	MOVQ         eights+16(FP), CX
	MOVQ         lines+24(FP), R8
	MOVQ         rests+32(FP), R9
	MOVQ         d+40(FP), AX
	VPBROADCASTQ 0(AX), Z10  // base
	VPBROADCASTQ 8(AX), Z11  // gcd
	VPBROADCASTQ 16(AX), Z12 // width
	VPBROADCASTQ 24(AX), Z13 // of a rest
	MOVL         $0xffff, AX
	VPBROADCASTQ AX, Z14     // of a packed value
	MOVL         $127, AX
	VPBROADCASTQ AX, Z15     // of a row of a line
	MOVL         $7, AX
	VPBROADCASTQ AX, Z16     // of a bit of a byte

lineRowsNext:
	VPMOVZXDQ  (SI), Z0
	VPMULUDQ   Z12, Z0, Z1         // bit
	VPSRLQ     $3, Z1, Z2
	VPANDQ     Z16, Z1, Z1
	KXNORB     K1, K1, K1
	VPXORQ     Z3, Z3, Z3
	VPGATHERQQ (R9)(Z2*1), K1, Z3
	VPSRLQ     $7, Z0, Z4
	KXNORB     K2, K2, K2
	VPXORQ     Z5, Z5, Z5
	VPGATHERQQ (R8)(Z4*4), K2, Z5
	VPSRLVQ    Z1, Z3, Z3
	VPANDQ     Z13, Z3, Z3         // rest
	VPSRLQ     $16, Z5, Z6
	VPANDQ     Z14, Z6, Z6         // ascent
	VPANDQ     Z15, Z0, Z0
	VPMULUDQ   Z6, Z0, Z6
	VPSRLQ     $7, Z6, Z6
	VPADDQ     Z3, Z5, Z5          // the mask drops the ascent above
	VPADDQ     Z6, Z5, Z5
	VPANDQ     Z14, Z5, Z5
	VPMULLQ    Z11, Z5, Z5
	VPADDQ     Z10, Z5, Z5
	VMOVDQU64  Z5, (DI)
	ADDQ       $32, SI
	ADDQ       $64, DI
	DECQ       CX
	JNZ        lineRowsNext
	VZEROUPPER
	RET
