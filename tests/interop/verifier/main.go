// Checks, with the Go project's own code, what our log has made: a JSON request a line, a JSON answer a line.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/ioutil"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type request struct {
	Op      string
	Key     string   // a vkey
	Note    string   // a signed note
	Size    int64    // of the tree, or of the newer one
	Root    string   // of that tree, base64
	Index   int64    // of a record
	Leaf    string   // its hash, base64
	Old     int64    // size of the older tree
	OldRoot string   // base64
	Proof   []string // base64
	Pub     string   // a directory with tiles
	Entries [][]byte // what the log should hold, from index 0 on
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var r request
		err := json.Unmarshal(lines.Bytes(), &r)
		if err == nil {
			err = check(r)
		}
		answer := map[string]string{"error": ""}
		if err != nil {
			answer["error"] = err.Error()
		}
		data, _ := json.Marshal(answer)
		fmt.Println(string(data))
	}
}

func check(r request) error {
	switch r.Op {
	case "note":
		verifier, err := note.NewVerifier(r.Key)
		if err != nil {
			return err
		}
		_, err = note.Open([]byte(r.Note), note.VerifierList(verifier))
		return err
	case "inclusion":
		return tlog.CheckRecord(hashes(r.Proof), r.Size, hash(r.Root), r.Index, hash(r.Leaf))
	case "consistency":
		return tlog.CheckTree(hashes(r.Proof), r.Size, hash(r.Root), r.Old, hash(r.OldRoot))
	case "tiles":
		return checkTiles(r)
	}
	return fmt.Errorf("unknown op %q", r.Op)
}

// checkTiles reads every record's hash from the published tiles, verified by their parents.
func checkTiles(r request) error {
	tree := tlog.Tree{N: r.Size, Hash: hash(r.Root)}
	reader := tlog.TileHashReader(tree, directory(r.Pub))
	for index, entry := range r.Entries {
		found, err := reader.ReadHashes([]int64{tlog.StoredHashIndex(0, int64(index))})
		if err != nil {
			return err
		}
		if found[0] != tlog.RecordHash(entry) {
			return fmt.Errorf("record %d is another", index)
		}
		proof, err := tlog.ProveRecord(r.Size, int64(index), reader)
		if err != nil {
			return err
		}
		if err := tlog.CheckRecord(proof, r.Size, tree.Hash, int64(index), found[0]); err != nil {
			return err
		}
	}
	return nil
}

type directory string

func (d directory) Height() int { return 8 }

func (d directory) SaveTiles(tiles []tlog.Tile, data [][]byte) {}

func (d directory) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var found [][]byte
	for _, tile := range tiles {
		// Go's paths name the height; C2SP's do not.
		path := "tile/" + strings.TrimPrefix(tile.Path(), "tile/8/")
		data, err := ioutil.ReadFile(filepath.Join(string(d), path))
		if os.IsNotExist(err) && tile.W < 256 {
			full := tile
			full.W = 256
			data, err = ioutil.ReadFile(filepath.Join(string(d), "tile/"+strings.TrimPrefix(full.Path(), "tile/8/")))
			if err == nil {
				data = data[:tile.W*tlog.HashSize]
			}
		}
		if err != nil {
			return nil, err
		}
		found = append(found, data)
	}
	return found, nil
}

func hash(text string) (found tlog.Hash) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err == nil && len(data) == tlog.HashSize {
		copy(found[:], data)
	}
	return found
}

func hashes(texts []string) (found []tlog.Hash) {
	for _, text := range texts {
		found = append(found, hash(text))
	}
	return found
}
