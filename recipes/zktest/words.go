package zktest

import (
	"fmt"
	"slices"
)

// words are the four-letter words this server answers.
var words = []string{"ruok", "srvr"}

func knownWord(w string) bool { return slices.Contains(words, w) }

// fourLetter is the answer to a four-letter word, after which ZooKeeper closes
// the connection.
func (s *Server) fourLetter(word string) string {
	if word == "ruok" {
		return "imok"
	}
	return fmt.Sprintf("Zxid: 0x%x\nMode: standalone\nNode count: %d\n", s.zxid, len(s.tree.nodes))
}
