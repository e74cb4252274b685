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
