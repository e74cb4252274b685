package wasmhost

import (
	"context"
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	needAll  = 1023
	flagsAll = 15

	maxStateSize  = 64 << 10
	maxResultSize = 1 << 20
	maxDocBytes   = 64 << 10
)

// Descriptor is what pentad_describe points to.
type Descriptor struct {
	Major, Minor uint16
	Kinds        uint32
	Need         uint32
	StateSize    uint32
	StateAlign   uint32
	ResultSize   uint32
	ParamsMax    uint32
	Flags        uint32
	MaxBatch     uint32
	Name         string
	Doc          []byte
}

// describe runs pentad_describe in an instance of its own and checks what it points to.
func (e *entry) describe(ctx context.Context, held *startPermit) error {
	g, err := e.instantiate(ctx, held)
	if err != nil {
		return err
	}
	defer g.drop()
	if err := g.start(); err != nil {
		return err
	}
	f := g.export(exportDescribe)
	ptr, err := g.call(&f, e.startFuel())
	if err != nil {
		return err
	}
	desc, err := g.readDescriptor(uint32(ptr))
	if err == nil {
		err = e.checkDescriptor(desc)
	}
	if err != nil {
		return &Error{Digest: e.digest, Export: exportDescribe, Kind: Refused, Reason: err.Error(),
			FuelUsed: g.used, MemoryBytes: uint64(g.memory.Size())}
	}
	e.desc = *desc
	return nil
}

func (g *guest) readDescriptor(ptr uint32) (*Descriptor, error) {
	src, ok := g.memory.Read(ptr, plugin.DescriptorSize)
	if !ok {
		return nil, fmt.Errorf("the descriptor at %d lies outside of the memory", ptr)
	}
	u32 := func(offset int) uint32 { return binary.LittleEndian.Uint32(src[offset:]) }
	if u32(0) != plugin.DescriptorMagic {
		return nil, fmt.Errorf("the descriptor at %d starts with %#08x, want %#08x", ptr, u32(0),
			uint32(plugin.DescriptorMagic))
	}
	d := &Descriptor{
		Major: uint16(u32(4)), Minor: uint16(u32(4) >> 16), Kinds: u32(8), Need: u32(12),
		StateSize: u32(16), StateAlign: u32(20), ResultSize: u32(24), ParamsMax: u32(28),
		Flags: u32(32), MaxBatch: u32(36),
	}
	name, ok := g.memory.Read(u32(40), min(u32(44), record.MaxPluginNameBytes+1))
	if !ok {
		return nil, fmt.Errorf("the name at %d lies outside of the memory", u32(40))
	}
	d.Name = string(name)
	if n := u32(52); n > 0 {
		doc, ok := g.memory.Read(u32(48), min(n, maxDocBytes+1))
		if !ok {
			return nil, fmt.Errorf("the description at %d lies outside of the memory", u32(48))
		}
		d.Doc = append([]byte(nil), doc...)
	}
	return d, nil
}

// checkDescriptor checks a descriptor against the module's exports and the host's limits.
func (e *entry) checkDescriptor(d *Descriptor) error {
	switch {
	case d.Major != 1:
		return fmt.Errorf("it is written for version %d of the ABI, this host speaks 1", d.Major)
	case d.Name == "" || !plugin.OneLine(d.Name) || len(d.Name) > record.MaxPluginNameBytes:
		return fmt.Errorf("the name must be 1 to %d bytes of printable UTF-8",
			record.MaxPluginNameBytes)
	case len(d.Doc) > maxDocBytes || !utf8.Valid(d.Doc):
		return fmt.Errorf("the description must be at most %d bytes of UTF-8", maxDocBytes)
	case d.Kinds == 0 || d.Kinds&^(plugin.KindFilter|plugin.KindAggregate) != 0:
		return fmt.Errorf("kinds are %#x, want 1 filter, 2 aggregate or 3 both", d.Kinds)
	case d.Kinds&plugin.KindFilter != 0 && e.kinds&needFilter == 0:
		return fmt.Errorf("it says that it is a filter and lacks the exports of one")
	case d.Kinds&plugin.KindAggregate != 0 && e.kinds&needAggregate == 0:
		return fmt.Errorf("it says that it is an aggregate and lacks the exports of one")
	case d.Need&^needAll != 0:
		return fmt.Errorf("it needs columns %#x that this host does not have", d.Need&^needAll)
	case d.Flags&^flagsAll != 0:
		return fmt.Errorf("it has flags %#x that this host does not know", d.Flags&^flagsAll)
	case d.ParamsMax > record.MaxParamsBytes:
		return fmt.Errorf("parameters of %d bytes, at most %d are allowed", d.ParamsMax,
			record.MaxParamsBytes)
	case d.ResultSize > maxResultSize:
		return fmt.Errorf("results of %d bytes, at most %d are allowed", d.ResultSize,
			maxResultSize)
	}
	if d.Kinds&plugin.KindAggregate == 0 {
		return nil
	}
	grows := d.Flags&plugin.FlagGrows != 0
	switch {
	case grows && e.kinds&needGrowth == 0:
		return fmt.Errorf("it says that its states grow and lacks the exports %s and %s",
			exportSave, exportLoad)
	case !grows && e.kinds&needMerge == 0:
		return fmt.Errorf("it lacks the export %s, and does not say that its states grow (flag %d)",
			exportMerge, plugin.FlagGrows)
	case d.Flags&plugin.FlagLinksPredecessors != 0 && e.kinds&needLinkPredecessor == 0:
		return fmt.Errorf("it says that its states link predecessors and lacks the export %s",
			exportLinkPredecessor)
	case d.StateAlign == 0 || d.StateAlign > 64 || d.StateAlign&(d.StateAlign-1) != 0:
		return fmt.Errorf("state alignment %d, want a power of two up to 64", d.StateAlign)
	case d.StateSize == 0 || d.StateSize > maxStateSize || d.StateSize%d.StateAlign != 0:
		return fmt.Errorf("state size %d, want 1 to %d and a multiple of the alignment %d",
			d.StateSize, maxStateSize, d.StateAlign)
	}
	return nil
}
