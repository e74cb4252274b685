#include "textflag.h"

// func prefetch(p *byte, lines int)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD lines+8(FP), R1
next:
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0
	SUBS $1, R1
	BGT  next
	RET

// func prefetchRows(body *byte, width int, rows *Span, n int)
TEXT ·prefetchRows(SB), NOSPLIT, $0-32
	MOVD body+0(FP), R0
	MOVD width+8(FP), R1
	MOVD rows+16(FP), R2
	MOVD n+24(FP), R3
each:
	MOVWU (R2), R4
	MOVWU 4(R2), R5
	MUL   R1, R4, R4
	MUL   R1, R5, R5
	LSR   $3, R4, R4
	LSR   $3, R5, R5
	ADD   R0, R4, R4
	ADD   R0, R5, R5
	PRFM  (R4), PLDL1KEEP
	PRFM  (R5), PLDL1KEEP
	ADD   $8, R2, R2
	SUB   $1, R3, R3
	CBNZ  R3, each
	RET
