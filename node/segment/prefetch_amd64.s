#include "textflag.h"

// func prefetch(p *byte, lines int)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ lines+8(FP), CX
next:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	DECQ CX
	JG   next
	RET

// func prefetchRows(body *byte, width int, rows *Span, n int)
TEXT ·prefetchRows(SB), NOSPLIT, $0-32
	MOVQ body+0(FP), AX
	MOVQ width+8(FP), CX
	MOVQ rows+16(FP), SI
	MOVQ n+24(FP), BX
each:
	MOVL       (SI), DX
	MOVL       4(SI), DI
	IMULQ      CX, DX
	IMULQ      CX, DI
	SHRQ       $3, DX
	SHRQ       $3, DI
	PREFETCHT0 (AX)(DX*1)
	PREFETCHT0 (AX)(DI*1)
	ADDQ       $8, SI
	DECQ       BX
	JG         each
	RET
