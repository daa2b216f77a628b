// Hive's metastore on loopback. HiveMetaStore.main would listen on all addresses: Hive 2.3 has no
// setting for that, so this does what it does, without security, compaction and the rest.
// Java compiles it as the server starts (the body of a class; the first argument is the port).

import java.net.InetAddress;
import java.net.InetSocketAddress;

import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.server.ServerContext;
import org.apache.thrift.server.TServerEventHandler;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransport;

public static void main(String[] arguments) throws Throwable {
    InetSocketAddress address =
        new InetSocketAddress(InetAddress.getByName("127.0.0.1"), Integer.parseInt(arguments[0]));
    // First: if the port is taken, nothing has been created.
    TThreadPoolServer.Args all = new TThreadPoolServer.Args(new TServerSocket(address));
    final ThriftHiveMetastore.Iface handler =
        HiveMetaStore.newRetryingHMSHandler("hudilab", new HiveConf(HiveMetaStore.class), false);
    all.processor(new TSetIpAddressProcessor(handler));
    TThreadPoolServer server = new TThreadPoolServer(all);
    server.setServerEventHandler(new TServerEventHandler() {
        public void preServe() {}

        public ServerContext createContext(TProtocol in, TProtocol out) {
            return null;
        }

        public void processContext(ServerContext context, TTransport in, TTransport out) {}

        // Clients that were killed leave their connection to the database in this thread.
        public void deleteContext(ServerContext context, TProtocol in, TProtocol out) {
            try {
                handler.shutdown();
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        }
    });
    server.serve();
}
