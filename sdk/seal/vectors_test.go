package seal

import (
	"encoding/binary"
	"encoding/hex"
	"testing"
)

// TestDerive compares keys and pads with numbers that another implementation computed, for ids that
// were texts.
func TestDerive(t *testing.T) {
	var root Key
	for i := range root {
		root[i] = 0x11
	}
	chain := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	device := derive(&root, labelDevice, []byte("cid-1"), []byte("mid-7"))
	series := derive(&device, labelSeries, []byte("moid-temp"))
	lane := derive(&series, labelLane, be16(1), chain)
	for _, c := range []struct {
		got  Key
		want string
	}{
		{device, "23cd5ccb25d02bdfaded1d84dac7b673977d20fefe6213283f678bf57b27b8de"},
		{series, "76d505f906915cc79229f949c2d132d27f36dd4f5e60598906e16f5b7b276c3a"},
		{lane, "70f2d3e83ee47fed07c61ea26a055351cb27c7a40638cee37747d0ab5dedad8f"},
	} {
		if hex.EncodeToString(c.got[:]) != c.want {
			t.Errorf("key %x, want %s", c.got[:], c.want)
		}
	}
	p := newPadBlock(&lane, 8)
	for i, want := range []uint64{0x34def5300f099c54, 0x98f087e093ec1f4e, 0xea82fa697885389b,
		0x30433f91f49b95af} {
		if got := binary.LittleEndian.Uint64(p.row(uint64(i))); got != want {
			t.Errorf("row %d is %016x, want %016x", i, got, want)
		}
	}
	order := derive(&root, labelOrder, []byte("moid-temp"), be16(1))
	o := newOrderCipher(&order)
	f := &Field{Order: &Order{}}
	if got := hex.EncodeToString(o.tag(nil, f, 16, 21500)); got !=
		"d142be79c0f5dd580a79a3bd63e6b140" {
		t.Errorf("order tag of 64 bits: %s", got)
	}
	if got := hex.EncodeToString(o.tag32(nil, 7)); got != "89c8de24f47e0837" {
		t.Errorf("order tag of 32 bits: %s", got)
	}
}
