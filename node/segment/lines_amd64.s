#include "textflag.h"

DATA lanes<>+0(SB)/8, $0
DATA lanes<>+8(SB)/8, $1
DATA lanes<>+16(SB)/8, $2
DATA lanes<>+24(SB)/8, $3
DATA lanes<>+32(SB)/8, $4
DATA lanes<>+40(SB)/8, $5
DATA lanes<>+48(SB)/8, $6
DATA lanes<>+56(SB)/8, $7
GLOBL lanes<>(SB), RODATA|NOPTR, $64

// LINE prepares the first eight values of a line in Z0, and eight steps in Z1.
#define LINE \
	MOVQ         out+0(FP), DI;      \
	MOVQ         n+8(FP), CX;        \
	VPBROADCASTQ base+16(FP), Z0;    \
	VPBROADCASTQ slope+24(FP), Z1;   \
	VPMULLQ      lanes<>(SB), Z1, Z2; \
	VPADDQ       Z2, Z0, Z0;         \
	VPSLLQ       $3, Z1, Z1;         \
	SUBQ         $8, CX

// REST makes a mask of the values that are left in K1.
#define REST \
	MOVL  $1, AX; \
	SHLL  CX, AX; \
	DECL  AX;     \
	KMOVB AX, K1

// PIECES begins a loop over pieces.
#define PIECES \
	MOVQ      out+0(FP), DI;     \
	MOVQ      pieces+8(FP), SI;  \
	MOVQ      n+16(FP), DX;      \
	MOVQ      bases+24(FP), R10; \
	MOVQ      slopes+32(FP), R11; \
	VMOVDQU64 lanes<>(SB), Z4

// PIECE loads the next piece: its base goes to R8, its slope to R9, its rows to CX.
#define PIECE(flat) \
	MOVL  0(SI), AX;        \
	MOVL  4(SI), BX;        \
	MOVL  8(SI), CX;        \
	ADDQ  $12, SI;          \
	MOVQ  (R10)(AX*8), R8;  \
	XORL  R9, R9;           \
	TESTQ R11, R11;         \
	JZ    flat;             \
	MOVQ  (R11)(AX*8), R9;  \
	IMULQ R9, BX;           \
	ADDQ  BX, R8

// PIECELINE is LINE for a piece.
#define PIECELINE \
	VPBROADCASTQ R8, Z0;     \
	VPBROADCASTQ R9, Z1;     \
	VPMULLQ      Z4, Z1, Z2; \
	VPADDQ       Z2, Z0, Z0; \
	VPSLLQ       $3, Z1, Z1; \
	SUBQ         $8, CX

// func fillLine(out *int64, n int, base, slope int64)
TEXT ·fillLine(SB), NOSPLIT, $0-32
	LINE
	JLT fillRest

fill:
	VMOVDQU64 Z0, (DI)
	VPADDQ    Z1, Z0, Z0
	ADDQ      $64, DI
	SUBQ      $8, CX
	JGE       fill

fillRest:
	ADDQ      $8, CX
	REST
	VMOVDQU64 Z0, K1, (DI)
	VZEROUPPER
	RET

// func addLine(out *int64, n int, base, slope int64)
TEXT ·addLine(SB), NOSPLIT, $0-32
	LINE
	JLT addRest

add:
	VPADDQ    (DI), Z0, Z3
	VMOVDQU64 Z3, (DI)
	VPADDQ    Z1, Z0, Z0
	ADDQ      $64, DI
	SUBQ      $8, CX
	JGE       add

addRest:
	ADDQ        $8, CX
	REST
	VMOVDQU64.Z (DI), K1, Z3
	VPADDQ      Z3, Z0, Z3
	VMOVDQU64   Z3, K1, (DI)
	VZEROUPPER
	RET

// func fillPieces(out *int64, pieces *piece, n int, bases, slopes *int64)
TEXT ·fillPieces(SB), NOSPLIT, $0-40
	PIECES

fillNext:
	PIECE(fillFlat)

fillFlat:
	PIECELINE
	JLT fillPieceRest

fillPiece:
	VMOVDQU64 Z0, (DI)
	VPADDQ    Z1, Z0, Z0
	ADDQ      $64, DI
	SUBQ      $8, CX
	JGE       fillPiece

fillPieceRest:
	ADDQ      $8, CX
	REST
	VMOVDQU64 Z0, K1, (DI)
	LEAQ      (DI)(CX*8), DI
	DECQ      DX
	JNZ       fillNext
	VZEROUPPER
	RET

// func addPieces(out *int64, pieces *piece, n int, bases, slopes *int64)
TEXT ·addPieces(SB), NOSPLIT, $0-40
	PIECES

addNext:
	PIECE(addFlat)

addFlat:
	PIECELINE
	JLT addPieceRest

addPiece:
	VPADDQ    (DI), Z0, Z3
	VMOVDQU64 Z3, (DI)
	VPADDQ    Z1, Z0, Z0
	ADDQ      $64, DI
	SUBQ      $8, CX
	JGE       addPiece

addPieceRest:
	ADDQ        $8, CX
	REST
	VMOVDQU64.Z (DI), K1, Z3
	VPADDQ      Z3, Z0, Z3
	VMOVDQU64   Z3, K1, (DI)
	LEAQ        (DI)(CX*8), DI
	DECQ        DX
	JNZ         addNext
	VZEROUPPER
	RET

// func countEights(starts, behind *int64, n int, from, to int64) (rows int64)
TEXT ·countEights(SB), NOSPLIT, $0-48
	MOVQ         starts+0(FP), SI
	MOVQ         behind+8(FP), DI
	MOVQ         n+16(FP), CX
	VPBROADCASTQ from+24(FP), Z6
	VPBROADCASTQ to+32(FP), Z7
	VPXORQ       Z8, Z8, Z8      // zeros
	VPXORQ       Z9, Z9, Z9      // rows of each lane

countNext:
	VMOVDQU64 (SI), Z0       // starts
	VPSUBQ    (DI), Z0, Z1   // where the first run of all would start
	VPADDQ    Z7, Z1, Z2
	VPADDQ    Z6, Z1, Z3
	VPMINSQ   8(SI), Z2, Z2  // ends
	VPMAXSQ   Z0, Z3, Z3
	VPSUBQ    Z3, Z2, Z2
	VPMAXSQ   Z8, Z2, Z2
	VPADDQ    Z2, Z9, Z9
	ADDQ      $64, SI
	ADDQ      $64, DI
	SUBQ      $8, CX
	JG        countNext

	VEXTRACTI64X4 $1, Z9, Y1
	VPADDQ        Y1, Y9, Y1
	VEXTRACTI128  $1, Y1, X2
	VPADDQ        X2, X1, X1
	VPSHUFD       $0xEE, X1, X2
	VPADDQ        X2, X1, X1
	VZEROUPPER
	MOVQ          X1, AX
	MOVQ          AX, rows+40(FP)
	RET
