package main

import (
	_ "github.com/tendermint/tendermint/abci/example/kvstore"
	_ "github.com/tendermint/tendermint/mempool/cat"
	_ "github.com/tendermint/tendermint/p2p"
	_ "github.com/tendermint/tendermint/proxy"
)

func main() {}
