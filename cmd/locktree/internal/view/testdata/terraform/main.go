// Command terraform reads a document of show -json with HashiCorp's own library
// for it, and writes what that understood, in that library's words.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	tfjson "github.com/hashicorp/terraform-json"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	var into any
	switch {
	case len(os.Args) == 2 && os.Args[1] == "plan":
		into = new(tfjson.Plan)
	case len(os.Args) == 2 && os.Args[1] == "state":
		into = new(tfjson.State)
	default:
		log.Fatal("usage: terraform plan|state < DOCUMENT")
	}
	if err := json.Unmarshal(text, into); err != nil { // it also validates
		log.Fatal(err)
	}
	if p, ok := into.(*tfjson.Plan); ok {
		for _, c := range p.ResourceChanges {
			a := c.Change.Actions
			if !a.NoOp() && !a.Create() && !a.Read() && !a.Update() && !a.Delete() && !a.Replace() && !a.Forget() {
				log.Fatalf("%s: it does not know the actions %v", c.Address, a)
			}
		}
	}
	out, err := json.Marshal(into)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(out))
}
