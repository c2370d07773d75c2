package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// image is an OCI image layout, built without a daemon: blobs by their digests, and an index of the platforms.
type image struct {
	blobs     map[string][]byte
	platforms []descriptor
}

// descriptor, and the other types here, are those of the OCI image specification 1.1.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        *descriptor  `json:"config,omitempty"`
	Layers        []descriptor `json:"layers,omitempty"`
	Manifests     []descriptor `json:"manifests,omitempty"`
}

type settings struct {
	platform
	Created string    `json:"created"`
	Config  execution `json:"config"`
	RootFS  rootFS    `json:"rootfs"`
}

type execution struct {
	User         string
	ExposedPorts map[string]struct{}
	Entrypoint   []string
	Cmd          []string
	Labels       map[string]string
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// add adds the image of a platform: the static binary and its license, and a user who is not root.
func (i *image) add(r *release, t target) error {
	var layer, packed bytes.Buffer
	err := r.tar(&layer, []member{{"LICENSE", 0o644, filepath.Join(r.root, "LICENSE")}, {"locktree", 0o755, r.program(t)}})
	if err != nil {
		return err
	}
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(layer.Bytes()) // into memory: it cannot fail
	_ = z.Close()
	of := platform{Architecture: t.arch, OS: t.os}
	config := i.json(mediaConfig, settings{
		platform: of,
		Created:  r.time.Format("2006-01-02T15:04:05Z"),
		Config: execution{
			User: "65532:65532", ExposedPorts: map[string]struct{}{"7676/tcp": {}}, Entrypoint: []string{"/locktree"}, Cmd: []string{"help"},
			Labels: map[string]string{
				"org.opencontainers.image.title": "locktree", "org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit,
				"org.opencontainers.image.source": "https://github.com/locktree/locktree", "org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
		RootFS: rootFS{"layers", []string{digest(layer.Bytes())}},
	})
	m := i.json(mediaManifest, manifest{SchemaVersion: 2, MediaType: mediaManifest, Config: &config, Layers: []descriptor{i.blob(mediaLayer, packed.Bytes())}})
	m.Platform = &of
	i.platforms = append(i.platforms, m)
	return nil
}

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

func (i *image) blob(mediaType string, content []byte) descriptor {
	if i.blobs == nil {
		i.blobs = map[string][]byte{}
	}
	i.blobs[digest(content)] = content
	return descriptor{MediaType: mediaType, Digest: digest(content), Size: len(content)}
}

func (i *image) json(mediaType string, document any) descriptor {
	return i.blob(mediaType, encode(document))
}

func encode(document any) []byte {
	text, err := json.Marshal(document)
	if err != nil {
		panic(err) // a document is made of texts and numbers
	}
	return text
}

// write writes the layout as an archive, which podman, skopeo and current releases of Docker load. It has one entry, an index of
// the platforms: a program that loads it takes the image for its own platform.
func (i *image) write(r *release) error {
	if len(i.platforms) == 0 {
		return nil // only Linux has images
	}
	all := i.json(mediaIndex, manifest{SchemaVersion: 2, MediaType: mediaIndex, Manifests: i.platforms})
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version}
	files := map[string][]byte{
		"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`),
		"index.json": encode(manifest{SchemaVersion: 2, MediaType: mediaIndex, Manifests: []descriptor{all}}),
	}
	for name, content := range i.blobs {
		files["blobs/sha256/"+name[len("sha256:"):]] = content
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(tarHeader(name, 0o644, len(files[name]), r.time)); err != nil {
			return err
		}
		if _, err := w.Write(files[name]); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return r.write(filepath.Join(r.out, "locktree_"+r.version+"_oci.tar"), out.Bytes())
}
