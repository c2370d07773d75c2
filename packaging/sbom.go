package main

import (
	"bytes"
	"debug/buildinfo"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// materials writes the bill of materials of a binary as CycloneDX JSON: the modules that the binary records, with the checksums
// of go.sum, and the Go release.
func (r *release) materials(t target) error {
	info, err := buildinfo.ReadFile(r.program(t))
	if err != nil {
		return err
	}
	self := component(cdx.ComponentTypeApplication, info.Main.Path, "v"+r.version)
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &self}
	std := component(cdx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))
	parts, refs := []cdx.Component{std}, []string{std.BOMRef}
	for _, module := range info.Deps {
		part := moduleComponent(module)
		parts, refs = append(parts, part), append(refs, part.BOMRef)
	}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return r.write(r.name(t, ".cdx.json"), out.Bytes())
}

func component(kind cdx.ComponentType, name, version string) cdx.Component {
	url := "pkg:golang/" + name + "@" + version
	return cdx.Component{Type: kind, BOMRef: url, PackageURL: url, Name: name, Version: version}
}

func moduleComponent(m *debug.Module) cdx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	part := component(cdx.ComponentTypeLibrary, m.Path, m.Version)
	part.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
	return part
}
